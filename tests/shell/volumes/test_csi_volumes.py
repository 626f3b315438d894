"""Volumes of CSI drivers on a real disk, with a driver in memory: what it is asked, when, and what is kept."""

from __future__ import annotations

import base64
import errno
import json
import os
from typing import TYPE_CHECKING

import pytest
import trio

from core.podkit import container, pod
from shell.csikit import CLAIM, DRIVER, UNIQUE, CsiNodeBench, claiming, with_inline
from trikubelet.core import csi
from trikubelet.core.containers import NodeFacts
from trikubelet.kit.threads import ThreadPool
from trikubelet.model import k8s
from trikubelet.model.csi import Capability, VolumeStats
from trikubelet.model.errors import VolumeFailed
from trikubelet.model.plugins import PluginFailed
from trikubelet.testing.memory_plugins import MemoryDriver
from trikubelet.volumes.csi import SWEEP_SECONDS
from trikubelet.volumes.csi_registration import CALL_SECONDS_MAX, STATS_REQUESTS_MAX
from trikubelet.volumes.volumes import DiskVolumes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from trio.testing import MockClock

UID = "12345678"
MIB = 1024**2
DEVICE = container("a", volume_devices=(k8s.VolumeDevice(name="v", device_path="/dev/v"),))


@pytest.fixture
def bench(place: Path) -> Iterator[CsiNodeBench]:
    made = CsiNodeBench(place)
    yield made
    made.close()


def volume_of(bench: CsiNodeBench, uid: str = UID, name: str = "pv") -> Path:
    return bench.root / "pods" / uid / "volumes/kubernetes.io~csi" / name


def staging(bench: CsiNodeBench) -> Path:
    return bench.root / "plugins/kubernetes.io/csi" / DRIVER / csi.handle_digest("handle") / "globalmount"


async def test_a_claimed_volume_is_staged_once_and_published_to_each_pod_where_upstream_does(
    autojump_clock: MockClock,
    bench: CsiNodeBench,
) -> None:
    bench.cluster.source = {"volume_attributes": {"tier": "gold"}, "fs_type": "ext4"}
    bench.cluster.spec = {"mount_options": ("noatime",)}
    async with bench.life() as volumes:
        assert {"v": str(volume_of(bench) / "mount")} == await volumes.set_up(claiming())
        await volumes.set_up(claiming())
        await volumes.set_up(claiming("other"))

    assert ["stage handle", "publish handle", "publish handle"] == bench.driver.calls
    staged, published = (
        bench.driver.staged[str(staging(bench))],
        bench.driver.published[str(volume_of(bench) / "mount")],
    )
    assert {"tier": "gold"} == staged.context == published.context
    assert ("ext4", ("noatime",)) == (published.use.fs_type, published.use.mount_flags)
    assert str(staging(bench)) == published.staging_path
    assert {
        "specVolID": "pv",
        "volumeHandle": "handle",
        "driverName": DRIVER,
        "nodeName": "n",
        "volumeLifecycleMode": "Persistent",
    } == json.loads((volume_of(bench) / "vol_data.json").read_bytes())


async def test_the_last_pod_to_go_has_the_volume_unstaged_and_nothing_is_left(
    autojump_clock: MockClock, bench: CsiNodeBench
) -> None:
    async with bench.life() as volumes:
        for uid in (UID, "other"):
            await volumes.set_up(claiming(uid))
        bench.driver.calls.clear()

        await volumes.tear_down(UID)
        await trio.sleep(100)
        assert ["unpublish handle"] == bench.driver.calls
        await volumes.tear_down("other")
        await trio.sleep(100)

    assert ["unpublish handle", "unpublish handle", "unstage handle"] == bench.driver.calls
    assert ({}, {}) == (bench.driver.staged, bench.driver.published)
    assert not staging(bench).parent.exists()
    assert not volume_of(bench).exists()


async def test_a_later_life_of_the_agent_unpublishes_and_unstages_what_an_earlier_one_did(
    autojump_clock: MockClock, bench: CsiNodeBench
) -> None:
    async with bench.life() as volumes:
        await volumes.set_up(claiming())
    bench.driver.calls.clear()

    async with bench.life() as volumes:
        await trio.sleep(100)
        assert [] == bench.driver.calls, "it is still the pod's"
        await volumes.tear_down(UID)
        await trio.sleep(100)

    assert ["unpublish handle", "unstage handle"] == bench.driver.calls
    assert ({}, {}) == (bench.driver.staged, bench.driver.published)


async def test_volumes_staged_for_no_pod_are_unstaged_at_start(autojump_clock: MockClock, bench: CsiNodeBench) -> None:
    async with bench.life() as volumes:
        bench.driver.failing = PluginFailed("Internal", "not now")
        with pytest.raises(VolumeFailed):
            await volumes.set_up(claiming())
        bench.driver.failing = None
        await volumes.set_up(claiming())
        bench.driver.failing = PluginFailed("Unavailable", "gone")
        with pytest.raises(VolumeFailed):
            await volumes.tear_down(UID)
        bench.driver.failing = None
        real, bench.driver.unstage = bench.driver.unstage, _busy  # type: ignore[method-assign]
        await volumes.tear_down(UID)
        await trio.sleep(1)
    assert {str(staging(bench))} == bench.driver.staged.keys()
    bench.driver.unstage = real  # type: ignore[method-assign]

    async with bench.life():
        await trio.sleep(1)
    assert {} == bench.driver.staged


async def test_a_volume_that_a_pod_gets_before_it_is_unstaged_stays_staged(
    autojump_clock: MockClock, bench: CsiNodeBench
) -> None:
    async with bench.life() as volumes:
        await volumes.set_up(claiming())
        real, bench.driver.unstage = bench.driver.unstage, _busy  # type: ignore[method-assign]
        await volumes.tear_down(UID)
        await trio.sleep(1)
        bench.driver.unstage = real  # type: ignore[method-assign]
        bench.driver.calls.clear()
        assert volumes._csi is not None
        (left,) = volumes._csi._records.staged.values()
        async with trio.open_nursery() as nursery, volumes._csi._turn(left.data.identity):
            nursery.start_soon(volumes.set_up, claiming("other"))
            await trio.sleep(SWEEP_SECONDS + 1)  # it is seen that no pod has it, while one waits to get it
        await trio.sleep(1)

    assert ["stage handle", "publish handle"] == bench.driver.calls
    assert {str(staging(bench))} == bench.driver.staged.keys()


async def test_what_a_pod_has_from_an_earlier_life_is_undone_with_it_whatever_the_driver_said_since(
    autojump_clock: MockClock, bench: CsiNodeBench
) -> None:
    async with bench.life() as volumes:
        await volumes.set_up(claiming())
    bench.driver.failing = PluginFailed("Internal", "no")
    async with bench.life() as volumes:
        with pytest.raises(VolumeFailed):
            await volumes.set_up(claiming())
        bench.driver.failing = None
        bench.driver.calls.clear()
        await volumes.tear_down(UID)
        await trio.sleep(1)

    assert ["unpublish handle", "unstage handle"] == bench.driver.calls
    assert ({}, {}) == (bench.driver.staged, bench.driver.published)


async def _busy(volume_id: str, staging_path: str) -> None:
    raise PluginFailed("Internal", "device busy")


async def test_a_running_pods_volume_is_asked_for_again_by_a_later_life(
    autojump_clock: MockClock, bench: CsiNodeBench
) -> None:
    async with bench.life() as volumes:
        await volumes.set_up(claiming())
    async with bench.life() as volumes:
        assert {"v": str(volume_of(bench) / "mount")} == await volumes.set_up(claiming())
    assert ["stage handle", "publish handle"] * 2 == bench.driver.calls


async def test_a_driver_that_does_not_stage_only_publishes(autojump_clock: MockClock, bench: CsiNodeBench) -> None:
    bench.driver.can = frozenset()
    async with bench.life() as volumes:
        await volumes.set_up(claiming())
        await volumes.tear_down(UID)
    assert ["publish handle", "unpublish handle"] == bench.driver.calls
    assert not staging(bench).parent.exists()


async def test_a_volume_of_the_pod_alone_is_published_with_what_its_driver_asks_for(
    autojump_clock: MockClock, bench: CsiNodeBench
) -> None:
    bench.cluster.driver = k8s.CSIDriverSpec(volume_lifecycle_modes=("Ephemeral",), pod_info_on_mount=True)
    bench.cluster.secrets = {"default/s": {"password": base64.b64encode(b"secret").decode()}}
    ref = k8s.LocalObjectReference(name="s")
    it = with_inline(read_only=True, fs_type="ext4", volume_attributes={"size": "1"}, node_publish_secret_ref=ref)
    async with bench.life() as volumes:
        path = (await volumes.set_up(it))["v"]
        request = bench.driver.published[path]
        await volumes.tear_down(UID)

    assert str(volume_of(bench, name="v") / "mount") == path
    assert (True, "ext4") == (request.read_only, request.use.fs_type)
    assert {"password": "secret"} == request.secrets
    assert ("1", "true", UID) == tuple(
        request.context[key] for key in ("size", "csi.storage.k8s.io/ephemeral", "csi.storage.k8s.io/pod.uid")
    )
    handle = request.volume_id
    assert [f"publish {handle}", f"unpublish {handle}"] == bench.driver.calls


async def test_secrets_of_a_volume_are_told_where_they_belong(autojump_clock: MockClock, bench: CsiNodeBench) -> None:
    text = {name: {"k": base64.b64encode(name.encode()).decode()} for name in ("vault/stage", "vault/publish")}
    bench.cluster.secrets = text
    bench.cluster.source = {
        f"node_{name}_secret_ref": k8s.SecretReference(namespace="vault", name=name) for name in ("stage", "publish")
    }
    async with bench.life() as volumes:
        path = (await volumes.set_up(claiming()))["v"]
    assert {"k": "vault/stage"} == bench.driver.staged[str(staging(bench))].secrets
    assert {"k": "vault/publish"} == bench.driver.published[path].secrets


@pytest.mark.parametrize("in_secrets", [True, False])
async def test_a_driver_is_told_of_new_tokens_at_every_look_at_the_pod(
    autojump_clock: MockClock, bench: CsiNodeBench, *, in_secrets: bool
) -> None:
    bench.cluster.driver = k8s.CSIDriverSpec(
        attach_required=False,
        requires_republish=True,
        service_account_token_in_secrets=in_secrets,
        token_requests=(k8s.TokenRequest(audience="vault", expiration_seconds=600),),
    )
    told = []
    async with bench.life() as volumes:
        for _ in range(2):
            path = (await volumes.set_up(claiming()))["v"]
            request = bench.driver.published[path]
            where = request.secrets if in_secrets else request.context
            told.append(json.loads(where["csi.storage.k8s.io/serviceAccount.tokens"])["vault"]["token"])
        bench.driver.failing = PluginFailed("Internal", "not now")
        assert {"v": path} == await volumes.set_up(claiming()), "what a running pod has it keeps"
        said = 'MountVolume.SetUp failed for volume "pv" : rpc error: code = Internal desc = not now'
        assert f"ready at {path}, but not refreshed: FailedMount: {said}" == volumes.progress(UID)["v"]

    assert ["first 600", "second 600"] == told
    assert [("Warning", "FailedMount", said)] == [
        (one.type, one.reason, one.message) for one in bench.events.about(UID)
    ]
    assert ["stage handle", *["publish handle"] * 3] == bench.driver.calls


async def test_driver_hanging_in_a_republish_delays_no_other(autojump_clock: MockClock, bench: CsiNodeBench) -> None:
    bench.cluster.driver = k8s.CSIDriverSpec(attach_required=False, requires_republish=True)
    async with bench.life() as volumes:
        path = await volumes.set_up(claiming())
        bench.driver.answering = trio.Event()
        bench.driver.calls.clear()
        began = trio.current_time()
        for _ in range(3):
            assert path == await volumes.set_up(claiming())
        assert (1, ["publish handle"]) == (trio.current_time() - began, bench.driver.calls)
        await trio.sleep(CALL_SECONDS_MAX)
        assert "DeadlineExceeded" in bench.events.about(UID)[0].message

        await volumes.set_up(claiming())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(volumes.tear_down, UID)
            await trio.sleep(1)
            bench.driver.answering.set()
    assert ["publish handle", "publish handle", "unpublish handle"] == bench.driver.calls[:3]
    assert {} == bench.driver.published


@pytest.mark.parametrize(
    ("told", "failing", "leaves"),
    [
        ("rpc error: code = Internal desc = no", PluginFailed("Internal", "no"), False),
        ("rpc error: code = Aborted desc = pending", PluginFailed("Aborted", "pending"), True),
    ],
)
async def test_what_the_driver_may_have_done_is_undone_and_nothing_else(
    autojump_clock: MockClock, told: str, failing: PluginFailed, leaves: bool, bench: CsiNodeBench
) -> None:
    bench.driver.failing = failing
    async with bench.life() as volumes:
        with pytest.raises(VolumeFailed) as failed:
            await volumes.set_up(claiming())
        bench.driver.failing = None
        bench.driver.calls.clear()
        await volumes.tear_down(UID)
        await trio.sleep(1)

    assert f'MountVolume.MountDevice failed for volume "pv" : {told}' == failed.value.message
    assert (["unpublish handle", "unstage handle"] if leaves else []) == bench.driver.calls
    assert not staging(bench).parent.exists()


async def test_a_driver_that_hangs_holds_up_its_pod_alone_and_is_told_within_two_minutes(
    autojump_clock: MockClock, bench: CsiNodeBench
) -> None:
    quick = MemoryDriver()
    bench.plug_in("quick.example.com", quick)
    bench.cluster.driver = k8s.CSIDriverSpec(volume_lifecycle_modes=("Persistent", "Ephemeral"), attach_required=False)
    other = pod(volumes=(k8s.Volume(name="v", csi=k8s.CSIVolumeSource(driver="quick.example.com")),), meta={"uid": "o"})
    async with bench.life() as volumes:
        bench.driver.answering = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_fails, volumes, claiming(), "code = DeadlineExceeded desc = context deadline exceeded")
            with trio.fail_after(1):
                await volumes.set_up(other)
        assert 120 <= trio.current_time() % 1e6
        with trio.fail_after(121), pytest.raises(VolumeFailed, match=r'UnmountVolume.TearDown failed for volume "pv"'):
            await volumes.tear_down(UID)
        bench.driver.answering.set()
        await volumes.tear_down(UID)
    assert {} == bench.driver.published


async def _fails(volumes: DiskVolumes, it: k8s.Pod, told: str) -> None:
    with pytest.raises(VolumeFailed) as failed:
        await volumes.set_up(it)
    assert told in failed.value.message


async def test_a_pod_waits_a_while_for_a_driver_to_register_and_is_told_when_it_does_not(
    autojump_clock: MockClock, bench: CsiNodeBench
) -> None:
    async with bench.life(registered=False) as volumes:
        with pytest.raises(VolumeFailed, match=f"driver name {DRIVER} not found in the list of registered CSI drivers"):
            await volumes.set_up(claiming())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(volumes.set_up, claiming())
            await trio.sleep(1)
            bench.plug_in(DRIVER, bench.driver)
    assert ["stage handle", "publish handle"] == bench.driver.calls


async def test_an_attached_volume_is_used_when_a_controller_says_it_is_attached_and_knows_it_is_used(
    autojump_clock: MockClock,
    bench: CsiNodeBench,
) -> None:
    cluster = bench.cluster
    cluster.driver = None
    attached = k8s.VolumeAttachmentStatus(attached=True, attachment_metadata={"device": "/dev/x"})
    name = csi.attachment_name(csi.Volume("pv", DRIVER, "handle", csi.PERSISTENT), "n")
    cluster.attachments[name] = k8s.VolumeAttachment(
        spec=k8s.VolumeAttachmentSpec(attacher=DRIVER, node_name="n", source=k8s.VolumeAttachmentSource()),
        status=attached,
    )
    there = (k8s.AttachedVolume(name=UNIQUE, device_path=""),)
    async with bench.life() as volumes:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(volumes.set_up, claiming())
            await trio.sleep(1)
            assert {UNIQUE} == set(volumes.in_use())
            cluster.status = k8s.NodeStatus(volumes_attached=there)
            volumes.node_changed()
            await trio.sleep(1)
            assert [] == bench.driver.calls
            cluster.status = k8s.NodeStatus(volumes_attached=there, volumes_in_use=(UNIQUE,))
            volumes.node_changed()
        assert {"device": "/dev/x"} == bench.driver.staged[str(staging(bench))].attached
    async with bench.life() as volumes:
        assert {UNIQUE} == set(volumes.in_use()), "a later life knows it, too"
        before = cluster.changes
        await volumes.tear_down(UID)
        await trio.sleep(1)
        assert set() == set(volumes.in_use())
        assert before < cluster.changes


@pytest.mark.parametrize(
    ("told", "status"),
    [
        ("Volume has not been added to the list of VolumesInUse", k8s.NodeStatus()),
        ("Volume not attached according to node status", k8s.NodeStatus(volumes_in_use=(UNIQUE,))),
        (
            'volumeattachments.storage.k8s.io "csi-',
            k8s.NodeStatus(
                volumes_in_use=(UNIQUE,), volumes_attached=(k8s.AttachedVolume(name=UNIQUE, device_path=""),)
            ),
        ),
    ],
)
async def test_why_a_volume_is_not_attached_is_reported(
    autojump_clock: MockClock, told: str, status: k8s.NodeStatus, bench: CsiNodeBench
) -> None:
    bench.cluster.driver = None
    bench.cluster.status = status
    async with bench.life() as volumes:
        with pytest.raises(VolumeFailed) as failed:
            await volumes.set_up(claiming())
    assert f'MountVolume.WaitForAttach failed for volume "pv" : {told}' in failed.value.message
    assert [] == bench.driver.calls


async def test_a_device_is_published_as_a_file_of_its_pod_and_taken_away_with_it(
    autojump_clock: MockClock, bench: CsiNodeBench
) -> None:
    bench.cluster.spec = {"volume_mode": "Block"}
    it = pod(DEVICE, volumes=(CLAIM,))
    devices = bench.root / "plugins/kubernetes.io/csi/volumeDevices"
    async with bench.life() as volumes:
        assert {"v": str(devices / "publish/pv" / UID)} == await volumes.set_up(it)
        assert bench.driver.published[str(devices / "publish/pv" / UID)].use.is_block
        assert str(devices / "publish/pv" / UID) == os.readlink(
            bench.root / "pods" / UID / "volumeDevices/kubernetes.io~csi/pv"
        )
    async with bench.life() as volumes:
        await volumes.tear_down(UID)
        await trio.sleep(1)

    assert ["stage handle", "publish handle", "unpublish handle", "unstage handle"] == bench.driver.calls
    assert [] == [path for path in devices.rglob("*") if not path.is_dir()]


@pytest.mark.parametrize(("expected", "policy"), [(0o660, "File"), (0o600, "None")])
async def test_files_get_the_pods_group_after_they_are_published(
    autojump_clock: MockClock, expected: int, policy: str, bench: CsiNodeBench
) -> None:
    bench.cluster.driver = k8s.CSIDriverSpec(attach_required=False, fs_group_policy=policy)
    bench.driver.can = frozenset({Capability.STAGE_UNSTAGE_VOLUME})
    mount = volume_of(bench) / "mount"
    mount.mkdir(parents=True)
    (mount / "file").touch(mode=0o600)
    async with bench.life() as volumes:
        await volumes.set_up(claiming(security_context=k8s.PodSecurityContext(fs_group=os.getgid())))
    assert expected == (mount / "file").stat().st_mode & 0o777


async def test_a_driver_is_asked_how_full_its_volume_is_and_what_is_wrong_with_it_is_an_event(
    autojump_clock: MockClock, bench: CsiNodeBench
) -> None:
    async with bench.life() as volumes:
        path = (await volumes.set_up(claiming()))["v"]
        assert {"v": path} == volumes.places(UID)
        assert VolumeStats(
            MIB - 4096, MIB, 4096, 99, 100, 1, is_abnormal=False, condition="well"
        ) == await volumes.volume_stats(UID, path)
        bench.driver.condition = "worn out"
        await volumes.volume_stats(UID, path)
        assert (None, None) == (
            await volumes.volume_stats("other", path),
            await volumes.volume_stats(UID, "/elsewhere"),
        )

        bench.driver.answering = trio.Event()
        began = trio.current_time()
        with pytest.raises(PluginFailed, match="DeadlineExceeded"):
            await volumes.volume_stats(UID, path)
        assert 120 == trio.current_time() - began

    (event,) = bench.events.about(UID)
    assert ("Warning", "VolumeConditionAbnormal", "Volume v: worn out") == (event.type, event.reason, event.message)


async def test_a_device_of_a_driver_is_told_of_too_and_a_driver_that_cannot_tell_is_not_asked(
    autojump_clock: MockClock, bench: CsiNodeBench
) -> None:
    bench.cluster.spec = {"volume_mode": "Block"}
    bench.driver.can = frozenset({Capability.STAGE_UNSTAGE_VOLUME})
    async with bench.life() as volumes:
        path = (await volumes.set_up(pod(DEVICE, volumes=(CLAIM,))))["v"]
        assert ({"v": path}, None) == (volumes.places(UID), await volumes.volume_stats(UID, path))


async def test_a_driver_is_asked_of_some_volumes_at_a_time(
    autojump_clock: MockClock, bench: CsiNodeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking, most, volume_stats = 0, 0, bench.driver.volume_stats

    async def slowly(volume_id: str, path: str) -> VolumeStats:
        nonlocal asking, most
        asking += 1
        most = max(most, asking)
        await trio.sleep(1)
        asking -= 1
        return await volume_stats(volume_id, path)

    monkeypatch.setattr(bench.driver, "volume_stats", slowly)
    told: list[VolumeStats | None] = []

    async def ask(volumes: DiskVolumes, uid: str, path: str) -> None:
        told.append(await volumes.volume_stats(uid, path))

    async with bench.life() as volumes, trio.open_nursery() as nursery:
        for number in range(STATS_REQUESTS_MAX + 1):
            uid = f"uid-{number}"
            nursery.start_soon(ask, volumes, uid, (await volumes.set_up(claiming(uid)))["v"])

    assert (STATS_REQUESTS_MAX, STATS_REQUESTS_MAX + 1) == (most, len([one for one in told if one is not None]))


@pytest.mark.parametrize("lay", [lambda path: path.write_text("{"), os.mkfifo])
async def test_a_record_that_cannot_be_read_keeps_its_volume(
    autojump_clock: MockClock, bench: CsiNodeBench, lay: Callable[[Path], object]
) -> None:
    volume_of(bench).mkdir(parents=True)
    lay(volume_of(bench) / "vol_data.json")
    async with bench.life() as volumes:
        with pytest.raises(VolumeFailed, match=r"FailedUnmount: UnmountVolume\..* cannot read .*vol_data\.json: "):
            await volumes.tear_down(UID)
    assert (volume_of(bench) / "vol_data.json").exists()


@pytest.mark.parametrize("content", [b"", b"\0" * 512])
async def test_a_record_that_a_power_cut_emptied_does_not_block_its_pod(
    autojump_clock: MockClock, bench: CsiNodeBench, content: bytes
) -> None:
    volume_of(bench).mkdir(parents=True)
    (volume_of(bench) / "vol_data.json").write_bytes(content)
    async with bench.life() as volumes:
        await volumes.tear_down(UID)
    assert [] == bench.driver.calls


async def test_an_empty_record_keeps_its_volume_while_something_is_mounted_there(
    autojump_clock: MockClock, bench: CsiNodeBench
) -> None:
    (volume_of(bench) / "mount").mkdir(parents=True)
    (volume_of(bench) / "vol_data.json").touch()
    bench.mounts.mount_tmpfs(str(volume_of(bench).resolve() / "mount"), None, 0o755, None)
    async with bench.life() as volumes:
        with pytest.raises(VolumeFailed, match=r"FailedUnmount: UnmountVolume\..* cannot read .*vol_data\.json: "):
            await volumes.tear_down(UID)


@pytest.mark.parametrize("stages", [False, True])
async def test_no_driver_is_asked_while_its_record_cannot_be_flushed(
    autojump_clock: MockClock, bench: CsiNodeBench, monkeypatch: pytest.MonkeyPatch, stages: bool
) -> None:
    if not stages:
        bench.driver.can = frozenset()

    def failing(_: int) -> None:
        raise OSError(errno.EIO, "I/O error")

    async with bench.life() as volumes:
        with monkeypatch.context() as broken:
            broken.setattr("os.fsync", failing)
            with pytest.raises(VolumeFailed, match="I/O error"):
                await volumes.set_up(claiming())
        assert [] == bench.driver.calls
        await volumes.set_up(claiming())
        assert [] != bench.driver.calls


async def test_without_a_cluster_such_a_volume_is_refused_in_clear_words(
    autojump_clock: MockClock, bench: CsiNodeBench, place: Path
) -> None:
    volumes = DiskVolumes(place, NodeFacts("n"), bench.mounts, ThreadPool("volumes", 1))
    with pytest.raises(VolumeFailed, match=f"volumes of CSI driver {DRIVER} need an API server, and this node has"):
        await volumes.set_up(with_inline())
