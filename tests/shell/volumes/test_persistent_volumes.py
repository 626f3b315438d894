"""Volumes of claims, and of servers, on a real disk with their mounts noted: what is asked, mounted, owned and left."""

from __future__ import annotations

import errno
import os
import stat
import threading
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from core.podkit import container, pod
from shell.mountkit import Bound, Nfs, NotedMounts
from trikubelet.core.containers import ConfigError, NodeFacts
from trikubelet.kit.threads import ThreadPool
from trikubelet.model import k8s
from trikubelet.model.errors import ObjectUnavailable, VolumeFailed
from trikubelet.status.recorder import EventRecorder
from trikubelet.testing.memory_host import VirtualClock
from trikubelet.volumes import ownership
from trikubelet.volumes.volumes import DiskVolumes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trio.testing import MockClock

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

CLAIM = k8s.Volume(
    name="v", persistent_volume_claim=k8s.PersistentVolumeClaimVolumeSource(claim_name="data", read_only=False)
)
PLACE = "pods/12345678/volumes/kubernetes.io~local-volume/pv"
GROUP = os.getgid()
NODE = k8s.Node(metadata=k8s.ObjectMeta(name="n", labels={"zone": "here"}))
EVENTS = EventRecorder(VirtualClock(), 1)


class Cluster:
    """One claim, and the volume it is bound to."""

    def __init__(self, **spec: object) -> None:
        self.phase = "Bound"
        self.asked: list[str] = []
        self.annotations: dict[str, str] = {}
        self.spec = k8s.PersistentVolumeSpec(claim_ref=k8s.ObjectReference(uid="c"), **spec)  # type: ignore[arg-type]

    async def claim(self, namespace: str, name: str) -> k8s.PersistentVolumeClaim:
        self.asked.append(f"{namespace}/{name}")
        if name != "data":
            raise ObjectUnavailable(f'failed to fetch PVC from API server: "{name}" not found')
        return k8s.PersistentVolumeClaim(
            metadata=k8s.ObjectMeta(name=name, namespace=namespace, uid="c"),
            spec=k8s.PersistentVolumeClaimSpec(volume_name="pv"),
            status=k8s.PersistentVolumeClaimStatus(phase=self.phase),
        )

    async def volume(self, name: str) -> k8s.PersistentVolume:
        self.asked.append(name)
        return k8s.PersistentVolume(
            metadata=k8s.ObjectMeta(name=name, uid="p", annotations=self.annotations), spec=self.spec
        )


@pytest.fixture
def mounts() -> NotedMounts:
    return NotedMounts()


@pytest.fixture
async def volumes(nursery: trio.Nursery, tmp_path: Path, mounts: NotedMounts) -> DiskVolumes:
    made = DiskVolumes(tmp_path, NodeFacts("n"), mounts, ThreadPool("volumes", 4))
    await nursery.start(made.run)
    return made


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    disk = tmp_path / "disk"
    disk.mkdir()
    (disk / "file").touch(mode=0o600)
    return disk


def local(disk: Path, **spec: object) -> Cluster:
    return Cluster(local=k8s.LocalVolumeSource(path=str(disk)), **spec)


def claiming(policy: str | None = None, uid: str = "12345678") -> k8s.Pod:
    """A pod with the claim, and a group if there is a policy about it."""
    context = None if policy is None else k8s.PodSecurityContext(fs_group=GROUP, fs_group_change_policy=policy)
    return pod(volumes=(CLAIM,), security_context=context, meta={"uid": uid})


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_a_local_directory_is_mounted_once_where_upstream_mounts_it(
    volumes: DiskVolumes, mounts: NotedMounts, disk: Path, tmp_path: Path
) -> None:
    cluster = local(disk)
    volumes.use_claims(cluster, lambda: NODE, lambda: None, EVENTS)

    assert {"v": str(tmp_path / PLACE)} == await volumes.set_up(claiming())
    await volumes.set_up(claiming())

    assert {str(tmp_path / PLACE): Bound(str(disk))} == mounts.mounted
    assert ["default/data", "pv"] == cluster.asked
    assert 0o600 == mode(disk / "file")


async def test_taking_down_unmounts_a_local_directory_and_leaves_what_is_in_it(
    volumes: DiskVolumes, mounts: NotedMounts, disk: Path
) -> None:
    cluster = local(disk)
    volumes.use_claims(cluster, lambda: NODE, lambda: None, EVENTS)
    await volumes.set_up(claiming())

    await volumes.tear_down("12345678")

    assert {} == mounts.mounted
    assert (disk / "file").exists()
    await volumes.set_up(claiming())
    assert ["default/data", "pv"] * 2 == cluster.asked


@pytest.mark.parametrize(
    ("expected", "policy", "root_mode"),
    [
        pytest.param(0o660, "", 0o2770, id="always, which is the default"),
        pytest.param(0o660, "Always", 0o2770, id="always"),
        pytest.param(0o600, "OnRootMismatch", 0o2770, id="the root is as it should be"),
        pytest.param(0o660, "OnRootMismatch", 0o700, id="the root is not"),
    ],
)
async def test_a_local_directorys_files_get_the_pods_group(
    expected: int, policy: str, root_mode: int, volumes: DiskVolumes, disk: Path
) -> None:
    volumes.use_claims(local(disk), lambda: NODE, lambda: None, EVENTS)
    os.chmod(disk, root_mode)

    await volumes.set_up(claiming(policy))

    assert expected == mode(disk / "file")
    (disk / "file").chmod(0o600)
    await volumes.set_up(claiming(policy))
    assert 0o600 == mode(disk / "file"), "it is mounted already, and what the pod changed is its own"


async def test_a_slow_change_of_a_volumes_ownership_is_logged(
    volumes: DiskVolumes,
    disk: Path,
    mock_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun, seen = threading.Event(), threading.Event()

    def chown_tree(root: int, group: int, read_only: bool, done: Callable[[], None]) -> None:
        for _ in range(3):
            done()
        begun.set()
        assert seen.wait(60)

    monkeypatch.setattr(ownership, "chown_tree", chown_tree)
    volumes.use_claims(local(disk), lambda: NODE, lambda: None, EVENTS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(volumes.set_up, claiming("Always"))
        await trio.to_thread.run_sync(begun.wait)
        mock_clock.jump(31)
        await trio.testing.wait_all_tasks_blocked()
        seen.set()

    message = "setting the ownership of volume v is taking longer than expected, 3 files so far"
    assert message in caplog.text


async def test_a_host_path_of_a_claim_is_checked_and_used_as_it_is(
    volumes: DiskVolumes, mounts: NotedMounts, disk: Path
) -> None:
    volumes.use_claims(
        Cluster(host_path=k8s.HostPathVolumeSource(path=f"{disk}/new", type="DirectoryOrCreate")),
        lambda: NODE,
        lambda: None,
        EVENTS,
    )

    assert {"v": f"{disk}/new"} == await volumes.set_up(claiming("Always"))

    assert (disk / "new").is_dir()
    assert 0o600 == mode(disk / "file")
    assert {} == mounts.mounted


async def test_a_container_waits_for_the_vanished_host_path_of_its_claim(volumes: DiskVolumes, disk: Path) -> None:
    source = k8s.HostPathVolumeSource(path=f"{disk}/socket", type="File")
    volumes.use_claims(Cluster(host_path=source), lambda: NODE, lambda: None, EVENTS)
    (disk / "socket").touch()
    it = claiming("Always")
    mounting = container("c", volume_mounts=(k8s.VolumeMount(name="v", mount_path="/v"),))
    await volumes.set_up(it)
    assert () == await volumes.resolve(it, mounting, ())

    (disk / "socket").unlink()
    with pytest.raises(ConfigError, match=f"hostPath type check failed: {disk}/socket is not a file"):
        await volumes.resolve(it, mounting, ())


@pytest.mark.parametrize("is_bound", [False, True])
async def test_an_nfs_server_that_a_mount_program_would_take_for_an_option_is_refused(
    volumes: DiskVolumes, mounts: NotedMounts, *, is_bound: bool
) -> None:
    nfs = k8s.NFSVolumeSource(server="--fstab=/evil", path="/f")
    volume = CLAIM if is_bound else k8s.Volume(name="v", nfs=nfs)
    volumes.use_claims(Cluster(nfs=nfs), lambda: NODE, lambda: None, EVENTS)
    with pytest.raises(VolumeFailed, match="its server must not begin with '-': --fstab=/evil"):
        await volumes.set_up(pod(volumes=(volume,)))

    assert {} == mounts.mounted


@pytest.mark.parametrize(
    ("expected", "server", "options"),
    [
        (Nfs("files:/data", ()), "files", {}),
        (Nfs("[2001:db8::1]:/data", ("ro",)), "2001:db8::1", {"read_only": True}),
    ],
)
async def test_a_servers_directory_is_mounted_once_with_its_options(
    expected: Nfs, server: str, options: dict[str, bool], volumes: DiskVolumes, mounts: NotedMounts, tmp_path: Path
) -> None:
    nfs = k8s.NFSVolumeSource(server=server, path="/data", **options)  # type: ignore[arg-type]
    it = pod(volumes=(k8s.Volume(name="v", nfs=nfs),))

    await volumes.set_up(it)
    path = (await volumes.set_up(it))["v"]

    assert str(tmp_path / "pods/12345678/volumes/kubernetes.io~nfs/v") == path
    assert {path: expected} == mounts.mounted


async def test_what_is_mounted_is_not_touched_again_for_its_server_may_be_gone(
    volumes: DiskVolumes, mounts: NotedMounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    nfs = k8s.NFSVolumeSource(server="files", path="/data")
    it = pod(volumes=(k8s.Volume(name="v", nfs=nfs),))
    path = (await volumes.set_up(it))["v"]

    def stale(call: Callable[..., Any]) -> Callable[..., Any]:
        def asked(place: Any, *arguments: Any, **keywords: Any) -> Any:
            if str(place) == path:
                raise OSError(errno.ESTALE, "Stale file handle", path)
            return call(place, *arguments, **keywords)

        return asked

    with monkeypatch.context() as patch:
        for name in ("stat", "lstat", "mkdir", "open", "readlink"):
            patch.setattr(os, name, stale(getattr(os, name)))
        assert {"v": path} == await volumes.set_up(it)

    assert [path] == list(mounts.mounted)


async def test_a_servers_directory_of_a_claim_has_the_volumes_options(
    volumes: DiskVolumes, mounts: NotedMounts
) -> None:
    nfs = k8s.NFSVolumeSource(server="files", path="/data", read_only=True)
    volumes.use_claims(Cluster(nfs=nfs, mount_options=("nfsvers=4.2", "hard")), lambda: NODE, lambda: None, EVENTS)

    path = (await volumes.set_up(claiming()))["v"]

    assert path.endswith("/kubernetes.io~nfs/pv")
    assert {path: Nfs("files:/data", ("ro", "nfsvers=4.2", "hard"))} == mounts.mounted


async def test_a_volumes_group_is_the_pods_as_long_as_it_has_the_volume(volumes: DiskVolumes, disk: Path) -> None:
    cluster = local(disk)
    cluster.annotations = {"pv.beta.kubernetes.io/gid": "3000"}
    volumes.use_claims(cluster, lambda: NODE, lambda: None, EVENTS)
    it = claiming()
    assert () == volumes.groups(it.metadata.uid)
    await volumes.set_up(it)
    assert (3000,) == volumes.groups(it.metadata.uid)
    assert () == volumes.groups("another")

    await volumes.tear_down(it.metadata.uid)
    assert () == volumes.groups(it.metadata.uid)


async def test_a_claim_that_is_not_bound_is_asked_for_again(volumes: DiskVolumes, disk: Path) -> None:
    cluster = local(disk)
    cluster.phase = "Pending"
    volumes.use_claims(cluster, lambda: NODE, lambda: None, EVENTS)

    with pytest.raises(VolumeFailed) as failed:
        await volumes.set_up(claiming())

    assert "FailedMount" == failed.value.reason
    assert (
        "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process "
        "volumes=[v]: error processing PVC default/data: PVC is not bound"
    ) in failed.value.message
    cluster.phase = "Bound"
    assert {"v"} == (await volumes.set_up(claiming())).keys()


async def test_an_ephemeral_volumes_claim_is_named_for_its_pod(volumes: DiskVolumes, disk: Path) -> None:
    volumes.use_claims(local(disk), lambda: NODE, lambda: None, EVENTS)
    template = k8s.PersistentVolumeClaimTemplate(spec=k8s.PersistentVolumeClaimSpec())
    it = pod(volumes=(k8s.Volume(name="v", ephemeral=k8s.EphemeralVolumeSource(volume_claim_template=template)),))

    with pytest.raises(VolumeFailed, match=r'error processing PVC default/pod-v: failed to .* "pod-v" not found'):
        await volumes.set_up(it)


async def test_a_volume_for_one_pod_at_a_time_is_refused_to_a_second(volumes: DiskVolumes, disk: Path) -> None:
    volumes.use_claims(local(disk, access_modes=("ReadWriteOncePod",)), lambda: NODE, lambda: None, EVENTS)
    await volumes.set_up(claiming(uid="first"))

    with pytest.raises(VolumeFailed, match="ReadWriteOncePod access mode and is already in use by another pod"):
        await volumes.set_up(claiming(uid="second"))

    await volumes.tear_down("first")
    await volumes.set_up(claiming(uid="second"))


@pytest.mark.parametrize(("expected", "zone"), [(True, "here"), (False, "elsewhere")])
async def test_a_volume_of_another_node_is_not_taken_for_one_of_this(
    expected: bool, zone: str, volumes: DiskVolumes, disk: Path
) -> None:
    there = k8s.NodeSelectorRequirement(key="zone", operator="In", values=(zone,))
    terms = k8s.NodeSelector(node_selector_terms=(k8s.NodeSelectorTerm(match_expressions=(there,)),))
    volumes.use_claims(
        local(disk, node_affinity=k8s.VolumeNodeAffinity(required=terms)), lambda: NODE, lambda: None, EVENTS
    )

    if expected:
        assert {"v"} == (await volumes.set_up(claiming())).keys()
        return
    told = 'MountVolume.NodeAffinity check failed for volume "pv" : no matching NodeSelectorTerms'
    with pytest.raises(VolumeFailed, match=told):
        await volumes.set_up(claiming())


async def test_without_an_api_server_there_are_no_claims(volumes: DiskVolumes) -> None:
    with pytest.raises(VolumeFailed, match="there is no API server to read claims from"):
        await volumes.set_up(claiming())


@pytest.mark.parametrize(
    ("told", "spec"),
    [
        pytest.param("is not a directory", {"local": k8s.LocalVolumeSource(path="/dev/null")}, id="a device"),
        pytest.param("No such file", {"local": k8s.LocalVolumeSource(path="/no/such")}, id="not there"),
        pytest.param("of this type are not supported", {"iscsi": None}, id="a type of its own"),
        pytest.param(
            "is not block device",
            {"local": k8s.LocalVolumeSource(path="/dev/null"), "volume_mode": "Block"},
            id="no block device",
        ),
        pytest.param(
            "only block devices of the types local and csi are supported",
            {"host_path": k8s.HostPathVolumeSource(path="/dev"), "volume_mode": "Block"},
            id="a block device of another type",
        ),
    ],
)
async def test_what_cannot_be_mounted_is_reported(told: str, spec: dict[str, object], volumes: DiskVolumes) -> None:
    volumes.use_claims(Cluster(**spec), lambda: NODE, lambda: None, EVENTS)
    device = k8s.VolumeDevice(name="v", device_path="/dev/v")
    user = container("a", volume_devices=(device,)) if "volume_mode" in spec else container("a")

    with pytest.raises(VolumeFailed, match=told):
        await volumes.set_up(pod(user, volumes=(CLAIM,)))
