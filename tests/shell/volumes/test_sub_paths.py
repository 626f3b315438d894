"""Sub-paths of volumes on a real disk, their mounts noted: what is held where, for how long, and what is refused."""

import errno
import os
from pathlib import Path

import pytest
import trio

from core.podkit import container, pod
from shell.mountkit import Bound, NotedMounts, Tmpfs
from trikubelet.core.containers import ConfigError, NodeFacts
from trikubelet.host.user_tmpfs import UserTmpfs
from trikubelet.kit.threads import ThreadPool
from trikubelet.model import k8s
from trikubelet.model.errors import VolumeFailed
from trikubelet.model.runtime_config import Mount
from trikubelet.sources.objects import ManifestObjects, NodeObjects
from trikubelet.volumes.volumes import DiskVolumes

SCRATCH = k8s.Volume(name="v", empty_dir=k8s.EmptyDirVolumeSource())
FACTS = k8s.DownwardAPIVolumeFile(path="uid", field_ref=k8s.ObjectFieldSelector(field_path="metadata.uid"))
DATA = k8s.Volume(name="d", downward_api=k8s.DownwardAPIVolumeSource(items=(FACTS,)))
POD = pod(
    container(
        "c", volume_mounts=(k8s.VolumeMount(name="v", mount_path="/v"), k8s.VolumeMount(name="d", mount_path="/d"))
    ),
    volumes=(SCRATCH, DATA),
)
UID = POD.metadata.uid


@pytest.fixture
def mounts() -> NotedMounts:
    return NotedMounts()


@pytest.fixture
async def volumes(nursery: trio.Nursery, tmp_path: Path, mounts: NotedMounts) -> DiskVolumes:
    volumes = made(tmp_path, mounts)
    await nursery.start(volumes.run)
    return volumes


def made(root: Path, mounts: NotedMounts, user_memory: UserTmpfs | None = None) -> DiskVolumes:
    volumes = DiskVolumes(root, NodeFacts("n"), mounts, ThreadPool("volumes", 4), user_memory=user_memory)
    volumes.use_objects(NodeObjects(ManifestObjects(())))
    return volumes


async def resolved(volumes: DiskVolumes, *, of_scratch: str = "", of_data: str = "") -> list[str]:
    """The host paths of the container's two mounts."""
    paths = await volumes.set_up(POD)
    asked = (Mount("/v", paths["v"], sub_path=of_scratch), Mount("/d", paths["d"], sub_path=of_data))
    return [mount.host_path for mount in await volumes.resolve(POD, POD.spec.containers[0], asked)]


def bound(mounts: NotedMounts) -> dict[str, str]:
    """Return the mounts, except for tmpfs."""
    return {path: mount.source for path, mount in mounts.mounted.items() if isinstance(mount, Bound)}


async def test_a_part_of_a_volume_is_made_and_held_where_upstream_holds_it(
    volumes: DiskVolumes, mounts: NotedMounts, tmp_path: Path
) -> None:
    part, data = await resolved(volumes, of_scratch="a/b")

    assert str(tmp_path / f"pods/{UID}/volume-subpaths/v/c/0") == part
    held = Path(part)
    assert [0o750] * 4 == [path.stat().st_mode & 0o777 for path in (held, *held.parents[:3])]
    assert {part: f"{tmp_path}/pods/{UID}/volumes/kubernetes.io~empty-dir/v/a/b"} == bound(mounts)
    assert f"{tmp_path}/pods/{UID}/volumes/kubernetes.io~downward-api/d" == data


async def test_a_file_of_a_volume_is_held_too_and_another_one_once_it_has_changed(
    volumes: DiskVolumes, mounts: NotedMounts, tmp_path: Path
) -> None:
    _, first = await resolved(volumes, of_data="uid")
    before = bound(mounts)[first]
    content = tmp_path / f"pods/{UID}/volumes/kubernetes.io~downward-api/d/..data/uid"
    content.chmod(0o600)  # what is not as it should be is rewritten

    assert "uid" == Path(before).name
    assert [first] == (await resolved(volumes, of_data="uid"))[1:]
    assert [first] == mounts.unmounted
    assert before != bound(mounts)[first]


async def test_a_directory_where_there_was_a_file_is_held_as_one(volumes: DiskVolumes, mounts: NotedMounts) -> None:
    volume = Path((await volumes.set_up(POD))["v"])
    (volume / "part").touch()
    await resolved(volumes, of_scratch="part")
    (volume / "part").unlink()
    (volume / "part").mkdir()

    part, _ = await resolved(volumes, of_scratch="part")

    assert {part: f"{volume}/part"} == bound(mounts)
    (volume / "part").rmdir()
    (volume / "part").touch()
    assert part == (await resolved(volumes, of_scratch="part"))[0]


async def test_what_a_volume_made_of_data_does_not_have_is_not_made(volumes: DiskVolumes) -> None:
    with pytest.raises(ConfigError, match="No such file or directory"):
        await resolved(volumes, of_data="absent")

    assert "absent" not in os.listdir((await volumes.set_up(POD))["d"])


async def test_a_way_out_is_refused_in_words_that_say_nothing_of_the_node(
    volumes: DiskVolumes, mounts: NotedMounts
) -> None:
    volume = Path((await volumes.set_up(POD))["v"])
    (volume / "out").symlink_to("/etc")

    with pytest.raises(ConfigError) as refused:
        await resolved(volumes, of_scratch="out/passwd")

    prepared = 'failed to prepare subPath for volumeMount "v" of container "c"'
    assert f"{prepared}: a link to an absolute path leads out of the volume" == refused.value.message
    assert ("CreateContainerConfigError", "c") == (refused.value.reason, refused.value.container)
    assert {} == bound(mounts)


async def test_what_cannot_be_mounted_says_nothing_of_the_node_either(
    volumes: DiskVolumes, mounts: NotedMounts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: int, path: str) -> None:
        raise OSError(f"mount {path}: permission denied")

    monkeypatch.setattr(mounts, "bind", fail)

    with pytest.raises(ConfigError, match=r'of container "c": mounting it failed$'):
        await resolved(volumes, of_scratch="a")
    assert "/volume-subpaths/v/c/0: permission denied" in caplog.text


async def test_a_part_that_can_never_be_had_is_complained_of_when_the_reason_changes(
    volumes: DiskVolumes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await resolved(volumes)
    part = tmp_path / f"pods/{UID}/volumes/kubernetes.io~empty-dir/v/a"
    for target in ("/etc", "a"):
        part.symlink_to(target)
        for _ in range(3):
            with pytest.raises(ConfigError, match="failed to prepare subPath"):
                await resolved(volumes, of_scratch="a")
        part.unlink()

    assert 2 == caplog.text.count("sub-path a of volume v: ")


async def test_parts_are_let_go_before_the_volumes_and_leftovers_are_found_without_any_record(
    volumes: DiskVolumes, mounts: NotedMounts, tmp_path: Path
) -> None:
    part, _ = await resolved(volumes, of_scratch="a")

    await made(tmp_path, mounts).tear_down(UID)

    assert part == mounts.unmounted[0]
    assert {} == mounts.mounted
    assert [] == list((tmp_path / f"pods/{UID}/volume-subpaths").iterdir())
    assert [] == list((tmp_path / f"pods/{UID}/volumes").iterdir())


async def test_what_is_mounted_in_a_part_of_the_node_is_taken_away_here_alone(
    volumes: DiskVolumes, mounts: NotedMounts
) -> None:
    part, data = await resolved(volumes, of_scratch="a")
    inside = f"{part}/came/by/propagation"
    mounts.mounted[inside] = Tmpfs(None, 0, None)

    await volumes.tear_down(UID)

    assert [inside, part, data] == mounts.unmounted
    assert {inside, part} == mounts.private


async def test_a_stale_part_is_mounted_again(
    volumes: DiskVolumes, mounts: NotedMounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    part, _ = await resolved(volumes, of_scratch="a")
    stat = os.stat

    def stale(path: object, **keywords: bool) -> os.stat_result:
        if str(path) == part and part in mounts.mounted:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return stat(path, **keywords)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(os, "stat", stale)

    assert part == (await resolved(volumes, of_scratch="a"))[0]
    assert [part] == mounts.unmounted


async def test_a_part_that_does_not_let_go_keeps_the_volumes(
    volumes: DiskVolumes, mounts: NotedMounts, tmp_path: Path
) -> None:
    part, data = await resolved(volumes, of_scratch="a")
    mounts.stuck.add(part)

    with pytest.raises(VolumeFailed, match="target is busy"):
        await volumes.tear_down(UID)

    assert {part, data} == mounts.mounted.keys()
    assert isinstance(mounts.mounted[data], Tmpfs)
    assert (tmp_path / f"pods/{UID}/volumes/kubernetes.io~empty-dir/v/a").is_dir()


async def test_for_containers_of_the_agents_own_user_the_path_itself_serves(
    tmp_path: Path, mounts: NotedMounts
) -> None:
    """There is nothing he could not reach anyway, and mount he cannot."""
    volumes = made(tmp_path, mounts, UserTmpfs(tmp_path, {}))

    part, _ = await resolved(volumes, of_scratch="a")

    assert f"{tmp_path}/pods/{UID}/volumes/kubernetes.io~empty-dir/v/a" == part
    assert {} == bound(mounts)
