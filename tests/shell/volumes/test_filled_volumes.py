"""Volumes made of data on a real disk: where they lie, what must be in memory, and what stays when a source goes."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from core.podkit import pod
from shell.mountkit import NotedMounts
from trikubelet.core.containers import NodeFacts
from trikubelet.core.containers.service_links import ServiceAddress
from trikubelet.core.containers.unsupported import unsupported_fields
from trikubelet.core.containers.volume_files import Files
from trikubelet.kit.threads import ThreadPool
from trikubelet.model import k8s
from trikubelet.model.errors import ObjectUnavailable, VolumeFailed
from trikubelet.model.objects import PodCertificate, ServiceAccountToken
from trikubelet.volumes import atomic_writer, content, refreshing
from trikubelet.volumes.volumes import DiskVolumes

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

META = k8s.ObjectMeta(name="o")
MIB = 1024**2
PLACE = "pods/12345678/volumes"


class Objects:
    """A cluster's objects as a test says they are."""

    def __init__(self) -> None:
        self.config_maps = {"o": k8s.ConfigMap(metadata=META, data={"a": "1"})}
        self.tokens = ["first", "second"]
        self.away = False
        self.answering = trio.Event()
        self.answering.set()
        self.released: list[str] = []

    async def config_map(self, _: k8s.Pod, name: str) -> k8s.ConfigMap | None:
        await self.answering.wait()
        if self.away:
            raise ObjectUnavailable("failed to sync configmap cache: timed out waiting for the condition")
        return self.config_maps.get(name)

    async def secret(self, _: k8s.Pod, name: str) -> k8s.Secret | None:
        return k8s.Secret(metadata=META, data={"k": "dg=="}) if name == "s" else None

    async def token(self, _: k8s.Pod, audience: str, seconds: int) -> ServiceAccountToken:
        text = f"{self.tokens.pop(0)} for {audience or 'the server'} for {seconds}"
        return ServiceAccountToken(text, "2026-01-01T00:00:00Z")

    async def pod_certificate(self, _: k8s.Pod, source: k8s.PodCertificateProjection) -> PodCertificate:
        if source.signer_name != "s":
            raise ObjectUnavailable("it is not issued yet")
        return PodCertificate(b"key\n", b"chain\n")

    async def services(self, _: k8s.Pod) -> tuple[ServiceAddress, ...]:
        return ()

    def release(self, uid: str) -> None:
        self.released.append(uid)


@pytest.fixture
def mounts() -> NotedMounts:
    return NotedMounts()


@pytest.fixture
def objects() -> Objects:
    return Objects()


@pytest.fixture
async def volumes(
    nursery: trio.Nursery, mock_clock: MockClock, tmp_path: Path, mounts: NotedMounts, objects: Objects
) -> DiskVolumes:
    made = DiskVolumes(tmp_path, NodeFacts("n", allocatable={"memory": 100 * MIB}), mounts, ThreadPool("volumes", 4))
    made.use_objects(objects)
    await nursery.start(made.run)
    return made


CONFIG = k8s.Volume(name="c", config_map=k8s.ConfigMapVolumeSource(name="o"))
SECRET = k8s.Volume(name="s", secret=k8s.SecretVolumeSource(secret_name="s", default_mode=0o400))
LABELS = k8s.DownwardAPIVolumeFile(path="uid", field_ref=k8s.ObjectFieldSelector(field_path="metadata.uid"))
DOWNWARD = k8s.Volume(name="d", downward_api=k8s.DownwardAPIVolumeSource(items=(LABELS,)))


LABELS_FILE = k8s.DownwardAPIVolumeFile(path="labels", field_ref=k8s.ObjectFieldSelector(field_path="metadata.labels"))
DOWNWARD_LABELS = k8s.Volume(name="d", downward_api=k8s.DownwardAPIVolumeSource(items=(LABELS_FILE,)))


def projected(*sources: k8s.VolumeProjection) -> k8s.Volume:
    return k8s.Volume(name="p", projected=k8s.ProjectedVolumeSource(sources=sources))


TOKEN = projected(
    k8s.VolumeProjection(
        service_account_token=k8s.ServiceAccountTokenProjection(audience="vault", expiration_seconds=600, path="t")
    )
)


def read(path: str, name: str) -> bytes:
    return Path(path, name).read_bytes()


async def test_each_kind_lies_where_upstream_has_it_and_only_config_maps_on_the_disk(
    volumes: DiskVolumes, tmp_path: Path, mounts: NotedMounts
) -> None:
    it = pod(volumes=(CONFIG, SECRET, DOWNWARD, TOKEN))
    paths = await volumes.set_up(it)

    place = tmp_path / PLACE
    kinds = {"c": "configmap", "s": "secret", "d": "downward-api", "p": "projected"}
    assert {name: str(place / f"kubernetes.io~{kind}" / name) for name, kind in kinds.items()} == paths
    assert {paths["s"], paths["d"], paths["p"]} == mounts.mounted.keys()
    assert {(100 * MIB, 0o755, None)} == {tuple(one) for one in mounts.mounted.values()}
    assert 0o755 == stat.S_IMODE(os.stat(paths["c"]).st_mode)
    assert b"1" == read(paths["c"], "a")
    assert b"v" == read(paths["s"], "k")
    assert b"12345678" == read(paths["d"], "uid")
    assert b"first for vault for 600" == read(paths["p"], "t")


async def test_volumes_belong_to_the_pods_group_and_so_does_whatever_is_made_in_them(
    volumes: DiskVolumes, mounts: NotedMounts
) -> None:
    group = os.getgid()
    paths = await volumes.set_up(pod(volumes=(CONFIG, SECRET), security_context=k8s.PodSecurityContext(fs_group=group)))

    assert {(100 * MIB, 0o2755, group)} == {tuple(one) for one in mounts.mounted.values()}
    made = os.stat(paths["c"])
    assert (0o2755, group) == (stat.S_IMODE(made.st_mode), made.st_gid)


async def test_setting_up_again_brings_the_files_up_to_date(volumes: DiskVolumes, objects: Objects) -> None:
    it = pod(volumes=(CONFIG, TOKEN))
    paths = await volumes.set_up(it)
    objects.config_maps["o"] = k8s.ConfigMap(metadata=META, data={"b": "2"})

    assert paths == await volumes.set_up(it)
    assert ["..data", "b"] == sorted(os.listdir(paths["c"]))[-2:]
    assert b"second for vault for 600" == read(paths["p"], "t")


async def test_of_two_sources_with_one_path_the_later_counts(volumes: DiskVolumes, objects: Objects) -> None:
    objects.config_maps["p"] = k8s.ConfigMap(metadata=META, data={"a": "2", "b": "2"})
    both = [k8s.VolumeProjection(config_map=k8s.ConfigMapProjection(name=name)) for name in ("p", "o")]
    path = (await volumes.set_up(pod(volumes=(projected(*both),))))["p"]

    assert (b"1", b"2") == (read(path, "a"), read(path, "b"))


@pytest.mark.parametrize(
    ("expected", "paths"),
    [
        ({"both": b"key\nchain\n"}, {"credential_bundle_path": "both"}),
        ({"k": b"key\n", "c/c": b"chain\n"}, {"key_path": "k", "certificate_chain_path": "c/c"}),
    ],
)
async def test_a_key_and_its_certificates_are_one_file_or_two_and_for_the_pods_user_alone(
    volumes: DiskVolumes, expected: dict[str, bytes], paths: dict[str, str]
) -> None:
    source = k8s.PodCertificateProjection(key_type="ED25519", signer_name="s", **paths)
    user = k8s.PodSecurityContext(run_as_user=os.getuid())
    volume = projected(k8s.VolumeProjection(pod_certificate=source))
    path = Path((await volumes.set_up(pod(volumes=(volume,), security_context=user)))["p"])

    assert expected == {name: (path / name).read_bytes() for name in expected}
    assert {0o600} == {(path / name).stat().st_mode & 0o777 for name in expected}


async def test_all_that_is_missing_is_reported_at_once_and_nothing_is_made(
    volumes: DiskVolumes, tmp_path: Path
) -> None:
    missing = projected(
        k8s.VolumeProjection(config_map=k8s.ConfigMapProjection(name="x")),
        k8s.VolumeProjection(secret=k8s.SecretProjection(name="y")),
        k8s.VolumeProjection(pod_certificate=k8s.PodCertificateProjection(key_type="ED25519", signer_name="z")),
    )
    with pytest.raises(VolumeFailed) as failed:
        await volumes.set_up(pod(volumes=(missing,)))

    assert (
        'MountVolume.SetUp failed for volume "p" : [configmap "x" not found, secret "y" not found, '
        "it is not issued yet]"
    ) == failed.value.message
    assert not (tmp_path / PLACE).exists()


async def test_of_many_problems_ten_are_reported(volumes: DiskVolumes) -> None:
    sources = [k8s.VolumeProjection(config_map=k8s.ConfigMapProjection(name=f"x{n}")) for n in range(12)]
    with pytest.raises(VolumeFailed) as failed:
        await volumes.set_up(pod(volumes=(projected(*sources),)))

    assert failed.value.message.endswith('configmap "x9" not found, …]')


@pytest.mark.parametrize("gone", [True, False])
async def test_a_pod_keeps_what_it_was_given_when_the_source_goes_or_the_server(
    volumes: DiskVolumes, objects: Objects, caplog: pytest.LogCaptureFixture, *, gone: bool
) -> None:
    it = pod(volumes=(CONFIG,))
    paths = await volumes.set_up(it)
    if gone:
        objects.config_maps.clear()
    objects.away = not gone

    assert paths == await volumes.set_up(it)
    assert paths == await volumes.set_up(it)
    assert b"1" == read(paths["c"], "a")
    assert 1 == caplog.text.count("stays as it was")
    assert f"ready at {paths['c']}, but not refreshed: " in volumes.progress("12345678")["c"]


@pytest.mark.parametrize("gone", [True, False])
async def test_a_pod_keeps_what_an_earlier_process_of_the_agent_gave_it(
    volumes: DiskVolumes, objects: Objects, tmp_path: Path, caplog: pytest.LogCaptureFixture, *, gone: bool
) -> None:
    it = pod(volumes=(CONFIG,))
    paths = await volumes.set_up(it)
    if gone:
        objects.config_maps.clear()
    else:
        objects.config_maps["o"] = k8s.ConfigMap(metadata=META, data={"a": "2"})
    later = DiskVolumes(tmp_path, NodeFacts("n"), NotedMounts(), ThreadPool("volumes", 4))
    later.use_objects(objects)

    assert paths == await later.set_up(it)
    assert (b"1" if gone else b"2") == read(paths["c"], "a")
    assert gone is ('stays as it was: configmap "o" not found' in caplog.text)


async def test_a_pod_that_has_its_volume_waits_a_moment_for_news_of_it_which_may_come_later(
    volumes: DiskVolumes, objects: Objects, mock_clock: MockClock
) -> None:
    it = pod(volumes=(CONFIG,))
    path = (await volumes.set_up(it))["c"]
    objects.config_maps["o"] = k8s.ConfigMap(metadata=META, data={"a": "2"})
    objects.answering = trio.Event()
    mock_clock.rate = 1000

    assert {"c": path} == await volumes.set_up(it)
    assert b"1" == read(path, "a")

    objects.answering.set()
    await until(lambda: read(path, "a") == b"2")


async def until(is_so: Callable[[], bool]) -> None:
    """Where a thread tells nobody, on a clock that runs a thousand times as fast."""
    with trio.fail_after(60_000):
        while not is_so():  # noqa: ASYNC110
            await trio.sleep(1)


async def test_pending_news_end_with_the_pods_volumes(
    volumes: DiskVolumes, objects: Objects, mock_clock: MockClock, tmp_path: Path
) -> None:
    it = pod(volumes=(CONFIG,))
    await volumes.set_up(it)
    objects.answering = trio.Event()
    mock_clock.rate = 1000
    await volumes.set_up(it)

    await until(lambda: "1 under way" in repr(volumes._refreshing))
    await volumes.tear_down("12345678")

    assert "0 under way" in repr(volumes._refreshing)
    assert [] == os.listdir(tmp_path / PLACE)


async def test_of_two_tear_downs_the_first_to_end_lets_nothing_be_set_up_beside_the_other(
    volumes: DiskVolumes, monkeypatch: pytest.MonkeyPatch
) -> None:
    it, ends = pod(volumes=(CONFIG,)), [trio.Event(), trio.Event()]
    waits = iter(ends)
    monkeypatch.setattr(volumes, "_take_down", lambda _: next(waits).wait())
    async with trio.open_nursery() as nursery:
        for _ in ends:
            nursery.start_soon(volumes.tear_down, "12345678")
        await trio.testing.wait_all_tasks_blocked()
        for end in ends:
            with pytest.raises(VolumeFailed, match="no volume is set up"):
                await volumes.set_up(it)
            end.set()
            await trio.testing.wait_all_tasks_blocked()
    assert {"c"} == (await volumes.set_up(it)).keys()


async def test_a_pod_that_asks_for_its_annotations_in_too_many_files_has_its_volume_refused(
    volumes: DiskVolumes, tmp_path: Path
) -> None:
    field = k8s.ObjectFieldSelector(field_path="metadata.annotations")
    files = [k8s.DownwardAPIVolumeFile(path=f"f{n}", field_ref=field) for n in range(100)]
    sources = [k8s.VolumeProjection(downward_api=k8s.DownwardAPIProjection(items=(file,))) for file in files]

    with pytest.raises(VolumeFailed) as failed:
        await volumes.set_up(pod(meta={"annotations": {"a": "y" * 230_000}}, volumes=(projected(*sources),)))

    assert (
        'MountVolume.SetUp failed for volume "p" : f18: with it the volume\'s files of the downward API are larger '
        "than 4194304 bytes"
    ) == failed.value.message
    assert not (tmp_path / PLACE).exists()


@pytest.mark.parametrize(
    ("volume", "why"),
    [
        (
            k8s.Volume(name="v", git_repo=k8s.GitRepoVolumeSource(repository="r")),
            "no kubelet mounts volumes of this type any more",
        ),
        (
            k8s.Volume(name="v", flex_volume=k8s.FlexVolumeSource(driver="d")),
            "volumes of this type are not supported yet",
        ),
    ],
)
async def test_the_pods_event_and_its_volume_give_one_reason(
    volumes: DiskVolumes, volume: k8s.Volume, why: str
) -> None:
    it = pod(volumes=(volume,))
    with pytest.raises(VolumeFailed) as failed:
        await volumes.set_up(it)

    assert f'MountVolume.SetUp failed for volume "v" : {why}' == failed.value.message
    assert [f"{why}: the pod waits"] == [one.why for one in unsupported_fields(it)]


@pytest.mark.parametrize("kind", ["one source", "a source each"])
async def test_a_key_at_too_many_paths_has_its_volume_refused(
    volumes: DiskVolumes, objects: Objects, tmp_path: Path, kind: str
) -> None:
    objects.config_maps["o"] = k8s.ConfigMap(metadata=META, data={"a": "y" * MIB})
    items = tuple(k8s.KeyToPath(key="a", path=f"f{n}") for n in range(66))
    apart = [(item,) for item in items] if kind == "a source each" else [items]
    sources = [k8s.VolumeProjection(config_map=k8s.ConfigMapProjection(name="o", items=those)) for those in apart]

    with pytest.raises(VolumeFailed) as failed:
        await volumes.set_up(pod(volumes=(projected(*sources),)))

    assert (
        'MountVolume.SetUp failed for volume "p" : f64: with it the volume\'s files are larger than 67108864 bytes'
        == failed.value.message
    )
    assert not (tmp_path / PLACE).exists()


async def test_files_are_given_to_the_users_that_the_volume_names(
    volumes: DiskVolumes, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_to: list[int] = []
    monkeypatch.setattr(os, "fchown", lambda _file, owner, _group: given_to.append(owner))
    items = (k8s.KeyToPath(key="a", path="mine", user=7), k8s.KeyToPath(key="a", path="default"))
    name = k8s.ObjectFieldSelector(field_path="metadata.name")
    fact = k8s.DownwardAPIVolumeFile(path="name", field_ref=name, user=11)
    sources = (
        k8s.VolumeProjection(config_map=k8s.ConfigMapProjection(name="o", items=items)),
        k8s.VolumeProjection(downward_api=k8s.DownwardAPIProjection(items=(fact,))),
        k8s.VolumeProjection(service_account_token=k8s.ServiceAccountTokenProjection(path="token", user=9)),
    )
    made_of_data = k8s.ProjectedVolumeSource(sources=sources, default_user=5)

    await volumes.set_up(pod(volumes=(k8s.Volume(name="p", projected=made_of_data),)))

    assert {7, 5, 9, 11} <= set(given_to)


async def test_files_are_made_in_the_thread_that_writes_them(
    volumes: DiskVolumes, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_by, real = [], content.secret_files

    def noting(*args: Any) -> Files:
        made_by.append(threading.current_thread())
        return real(*args)

    monkeypatch.setattr(content, "secret_files", noting)
    await volumes.set_up(pod(volumes=(SECRET,)))

    assert threading.main_thread() not in made_by
    assert 1 == len(made_by)


async def test_of_a_pods_volumes_that_are_brought_up_to_date_only_so_many_are_made_at_once(
    nursery: trio.Nursery, mock_clock: MockClock, tmp_path: Path, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    volumes = DiskVolumes(tmp_path, NodeFacts("n"), NotedMounts(), ThreadPool("volumes", 16))
    volumes.use_objects(objects)
    await nursery.start(volumes.run)
    it = pod(volumes=tuple(msgspec.structs.replace(CONFIG, name=f"c{number}") for number in range(9)))
    paths = await volumes.set_up(it)
    held, real = threading.Event(), atomic_writer.write

    def slow(*args: Any) -> bool:
        assert held.wait(60)
        return real(*args)

    mock_clock.rate = 1000
    monkeypatch.setattr(atomic_writer, "write", slow)
    objects.config_maps["o"] = k8s.ConfigMap(metadata=META, data={"a": "2"})
    try:
        await volumes.set_up(it)
        await until(lambda: 4 <= len(volumes._threads.running("12345678")))
        await trio.testing.wait_all_tasks_blocked()
        assert 4 == len(volumes._threads.running("12345678"))
    finally:
        held.set()
    await until(lambda: {b"2"} == {read(path, "a") for path in paths.values()})


@pytest.mark.parametrize("path", ["./a.yaml", "conf//a.yaml", "conf/", "./conf/./a.yaml"])
async def test_an_items_path_is_cleaned_as_upstream_does(volumes: DiskVolumes, path: str) -> None:
    items = (k8s.KeyToPath(key="a", path=path),)
    volume = k8s.Volume(name="c", config_map=k8s.ConfigMapVolumeSource(name="o", items=items))

    assert b"1" == read((await volumes.set_up(pod(volumes=(volume,))))["c"], path.rstrip("/"))


async def test_files_without_content_are_counted_by_their_names(volumes: DiskVolumes, objects: Objects) -> None:
    objects.config_maps["o"] = k8s.ConfigMap(metadata=META, data={f"{n:0250}": "" for n in range(1000)})
    sources = [k8s.VolumeProjection(config_map=k8s.ConfigMapProjection(name="o"))] * 300

    with pytest.raises(VolumeFailed, match="with it the volume's files are larger than"):
        await volumes.set_up(pod(volumes=(projected(*sources),)))


async def test_news_that_come_while_older_ones_are_written_are_written_behind_them(
    volumes: DiskVolumes, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = pod(volumes=(CONFIG, DOWNWARD_LABELS))
    paths = await volumes.set_up(it)
    began, held, real = threading.Event(), threading.Event(), atomic_writer.write

    def slow(*args: Any) -> bool:
        began.set()
        assert held.wait(60)
        return real(*args)

    monkeypatch.setattr(refreshing, "WAIT_SECONDS_MAX", 0.01)
    monkeypatch.setattr(atomic_writer, "write", slow)
    objects.config_maps["o"] = k8s.ConfigMap(metadata=META, data={"a": "2"})
    await volumes.set_up(it)
    await trio.to_thread.run_sync(began.wait)
    assert f"ready at {paths['c']}; earlier work has not ended yet" == volumes.progress("12345678")["c"]
    objects.config_maps["o"] = k8s.ConfigMap(metadata=META, data={"a": "3"})
    labelled = msgspec.structs.replace(it.metadata, labels={"new": "label"})
    await volumes.set_up(msgspec.structs.replace(it, metadata=labelled))
    held.set()

    with trio.fail_after(60):
        while (b"3", b'new="label"') != (read(paths["c"], "a"), read(paths["d"], "labels")):  # noqa: ASYNC110 - a thread tells nobody
            await trio.sleep(0.001)


async def test_a_bug_in_what_brings_a_volume_up_to_date_is_the_volumes_alone(
    volumes: DiskVolumes, objects: Objects, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    it = pod(volumes=(CONFIG,))
    paths = await volumes.set_up(it)
    monkeypatch.setattr(objects, "config_map", None)

    for _ in range(3):
        assert paths == await volumes.set_up(it)
    assert 1 == caplog.text.count("a bug in refreshing it")


async def test_a_pod_keeps_what_it_was_given_when_there_is_no_room_for_more(
    volumes: DiskVolumes, objects: Objects, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    it = pod(volumes=(CONFIG,))
    paths = await volumes.set_up(it)
    objects.config_maps["o"] = k8s.ConfigMap(metadata=META, data={"a": "2"})

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fchmod", full)
    assert paths == await volumes.set_up(it)
    assert b"1" == read(paths["c"], "a")
    assert "stays as it was: [Errno 28] no room for" in caplog.text


async def test_volumes_that_a_pod_has_keep_no_sync_waiting_however_many_hang(
    volumes: DiskVolumes, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"c{number}" for number in range(6)]
    it = pod(volumes=tuple(msgspec.structs.replace(CONFIG, name=name) for name in names))
    paths = await volumes.set_up(it)
    held, real = threading.Event(), atomic_writer.write

    def slow(*args: Any) -> bool:
        assert held.wait(60)
        return real(*args)

    monkeypatch.setattr(refreshing, "WAIT_SECONDS_MAX", 0.01)
    monkeypatch.setattr(atomic_writer, "write", slow)
    try:
        for _ in range(3):
            assert paths == await volumes.set_up(it)
    finally:
        held.set()


async def test_a_pod_that_is_taken_down_needs_its_objects_no_more_and_leaves_no_file(
    volumes: DiskVolumes, objects: Objects, mounts: NotedMounts, tmp_path: Path
) -> None:
    await volumes.set_up(pod(volumes=(CONFIG, SECRET)))
    await volumes.tear_down("12345678")

    assert ["12345678"] == objects.released
    assert {} == mounts.mounted
    assert [] == os.listdir(tmp_path / PLACE)
