"""emptyDir on a real disk: its place, its mode, its size in memory, and its end."""

import os
import stat
import sys
from pathlib import Path

import pytest

from core.podkit import container, pod
from shell.breadth import nest
from shell.mountkit import HugePages, NotedMounts, Tmpfs
from trikubelet.core.containers import NodeFacts
from trikubelet.host.removal import remove_tree
from trikubelet.kit.threads import ThreadPool
from trikubelet.model import k8s
from trikubelet.model.errors import VolumeFailed
from trikubelet.volumes.plugin import memory_bytes
from trikubelet.volumes.volumes import DiskVolumes

MIB = 1024**2
PLACE = "pods/12345678/volumes/kubernetes.io~empty-dir"


@pytest.fixture
def mounts() -> NotedMounts:
    return NotedMounts()


@pytest.fixture
def volumes(tmp_path: Path, mounts: NotedMounts) -> DiskVolumes:
    facts = NodeFacts("n", allocatable={"memory": 100 * MIB})
    return DiskVolumes(tmp_path, facts, mounts, ThreadPool("volumes", 4))


def with_volume(medium: str = "", size: str | None = None, **fields: object) -> k8s.Pod:
    source = k8s.EmptyDirVolumeSource(medium=medium, size_limit=size)
    return pod(volumes=(k8s.Volume(name="v", empty_dir=source),), **fields)  # type: ignore[arg-type]


def mode(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def write(path: str, text: str) -> None:
    Path(path, "data").write_text(text)


def read(path: str) -> str:
    return Path(path, "data").read_text()


async def test_a_volume_on_disk_lies_where_upstream_has_it_and_anyone_in_the_pod_may_write(
    volumes: DiskVolumes, tmp_path: Path
) -> None:
    path = (await volumes.set_up(with_volume()))["v"]

    assert str(tmp_path / PLACE / "v") == path
    assert 0o777 == mode(path)


async def test_what_is_made_inside_belongs_to_the_pods_group(volumes: DiskVolumes) -> None:
    group = os.getgid()
    context = k8s.PodSecurityContext(fs_group=group)

    path = (await volumes.set_up(with_volume(security_context=context)))["v"]

    assert (0o2777, group) == (mode(path), os.stat(path).st_gid)


async def test_a_mode_the_pod_gave_its_volume_stays(volumes: DiskVolumes) -> None:
    path = (await volumes.set_up(with_volume()))["v"]
    os.chmod(path, 0o700)
    write(path, "kept")

    await volumes.set_up(with_volume())

    assert 0o700 == mode(path)
    assert "kept" == read(path)


async def test_interrupted_creation_of_a_volume_is_completed(volumes: DiskVolumes, tmp_path: Path) -> None:
    (tmp_path / PLACE / ".v").mkdir(parents=True, mode=0o700)

    path = (await volumes.set_up(with_volume()))["v"]

    assert 0o777 == mode(path)
    assert [Path(path)] == list((tmp_path / PLACE).iterdir())


async def test_a_volume_in_memory_is_mounted_once_with_its_mode_and_group(
    volumes: DiskVolumes, mounts: NotedMounts
) -> None:
    it = with_volume("Memory", "1Mi", security_context=k8s.PodSecurityContext(fs_group=7))

    path = (await volumes.set_up(it))["v"]
    await volumes.set_up(it)

    assert {path: Tmpfs(MIB, 0o3777, 7)} == mounts.mounted


async def test_something_a_container_mounted_inside_is_not_the_volume_itself(
    volumes: DiskVolumes, mounts: NotedMounts, tmp_path: Path
) -> None:
    inside = str(tmp_path / PLACE / "v/inside")
    mounts.mounted[inside] = Tmpfs(None, 0, None)

    path = (await volumes.set_up(with_volume("Memory")))["v"]

    assert {path, inside} == mounts.mounted.keys()


@pytest.mark.parametrize(
    ("expected", "size", "limit"),
    [
        pytest.param(1 * MIB, "1Mi", "2Mi", id="its own limit is the smallest"),
        pytest.param(2 * MIB, "3Mi", "2Mi", id="the pod's limit is the smallest"),
        pytest.param(2 * MIB, None, "2Mi", id="only the pod has a limit"),
        pytest.param(100 * MIB, "1Gi", None, id="the node has no more to give"),
        pytest.param(100 * MIB, "0", None, id="a limit of nothing is none"),
    ],
)
async def test_a_volume_in_memory_is_as_large_as_the_smallest_limit(
    expected: int, size: str | None, limit: str | None, volumes: DiskVolumes, mounts: NotedMounts
) -> None:
    limits: dict[str, k8s.Quantity] = {"memory": limit} if limit else {}
    it = pod(
        container("a", resources=k8s.ResourceRequirements(limits=limits)),
        volumes=with_volume("Memory", size).spec.volumes,
    )

    await volumes.set_up(it)

    assert [expected] == [tmpfs.size_bytes for tmpfs in mounts.mounted.values() if isinstance(tmpfs, Tmpfs)]


def test_without_any_limit_there_is_no_size() -> None:
    assert memory_bytes(None, 0, 0) is None


def asking(*sizes: str) -> k8s.Container:
    """A container that asks for huge pages of these sizes."""
    amounts: dict[str, k8s.Quantity] = {f"hugepages-{size}": "1Gi" for size in sizes}
    return container("a", resources=k8s.ResourceRequirements(requests=amounts, limits=amounts))


@pytest.mark.parametrize(
    ("expected", "medium", "sizes"),
    [
        pytest.param(2 * MIB, "HugePages", ["2Mi"], id="the only size asked for"),
        pytest.param(1024 * MIB, "HugePages-1Gi", ["2Mi", "1Gi"], id="the medium's own"),
        pytest.param(2 * MIB, "HugePages-2Mi", ["2048Ki"], id="spelt otherwise"),
    ],
)
async def test_a_volume_in_huge_pages_is_mounted_once_with_their_size(
    expected: int, medium: str, sizes: list[str], volumes: DiskVolumes, mounts: NotedMounts
) -> None:
    group = k8s.PodSecurityContext(fs_group=7)
    it = pod(asking(*sizes), volumes=with_volume(medium).spec.volumes, security_context=group)

    path = (await volumes.set_up(it))["v"]
    await volumes.set_up(it)

    assert {path: HugePages(expected, 0o2777, 7)} == mounts.mounted


@pytest.mark.parametrize(
    ("told", "medium", "sizes"),
    [
        ("which request no huge pages", "HugePages", []),
        ("which request pages of several sizes", "HugePages", ["2Mi", "1Gi"]),
        ("no container requests pages of that size", "HugePages-2Mi", ["1Gi"]),
        ('"Tape" is not a storage medium', "Tape", ["1Gi"]),
    ],
)
async def test_huge_pages_without_requests_are_rejected(
    told: str, medium: str, sizes: list[str], volumes: DiskVolumes
) -> None:
    with pytest.raises(VolumeFailed, match=told):
        await volumes.set_up(pod(asking(*sizes), volumes=with_volume(medium).spec.volumes))


async def test_taking_down_unmounts_the_deepest_first_and_removes_everything(
    volumes: DiskVolumes, mounts: NotedMounts, tmp_path: Path
) -> None:
    path = (await volumes.set_up(with_volume("Memory")))["v"]
    mounts.mounted[f"{path}/inside"] = Tmpfs(None, 0, None)
    write(path, "gone")

    await volumes.tear_down("12345678")

    assert [f"{path}/inside", path] == mounts.unmounted
    assert [] == list((tmp_path / "pods/12345678/volumes").iterdir())


async def test_leftovers_of_an_earlier_agent_are_found_on_the_disk(volumes: DiskVolumes, tmp_path: Path) -> None:
    treasure = tmp_path / "treasure"
    treasure.write_text("gold")
    left = tmp_path / "pods/12345678/volumes"
    (left / "kubernetes.io~unknown/v/deep").mkdir(parents=True)
    (left / "way-out").symlink_to(treasure)

    await volumes.tear_down("12345678")

    assert [] == list(left.iterdir())
    assert "gold" == treasure.read_text()


async def test_a_volume_nested_deeper_than_a_stack_is_removed_with_its_pod(
    volumes: DiskVolumes, tmp_path: Path
) -> None:
    left = tmp_path / "pods/12345678/volumes"
    nest((await volumes.set_up(with_volume()))["v"], sys.getrecursionlimit() + 200)

    try:
        await volumes.tear_down("12345678")

        assert [] == list(left.iterdir())
    finally:
        remove_tree(str(left))  # pytest could not


@pytest.mark.parametrize("part", ["volumes", "volume-subpaths"])
async def test_a_link_in_a_directorys_place_leads_to_nothing_that_is_the_pods(
    part: str, volumes: DiskVolumes, mounts: NotedMounts, tmp_path: Path
) -> None:
    await volumes.set_up(with_volume())
    kept = tmp_path / "kept"
    (kept / "mounted").mkdir(parents=True)
    mounts.mounted[str(kept / "mounted")] = Tmpfs(None, 0, None)
    (tmp_path / "pods/other").mkdir()
    (tmp_path / f"pods/other/{part}").symlink_to(kept)

    await volumes.tear_down("other")

    assert {str(kept / "mounted")} == mounts.mounted.keys()
    assert (kept / "mounted").is_dir()


async def test_nothing_is_removed_below_a_mount_that_does_not_let_go(volumes: DiskVolumes, mounts: NotedMounts) -> None:
    path = (await volumes.set_up(with_volume("Memory")))["v"]
    write(path, "kept")
    mounts.stuck.add(path)

    with pytest.raises(
        VolumeFailed, match=r"UnmountVolume.TearDown failed for pod 12345678: .*target is busy"
    ) as failed:
        await volumes.tear_down("12345678")

    assert "FailedUnmount" == failed.value.reason
    assert "kept" == read(path)


async def test_nothing_is_removed_below_a_mount_that_came_while_others_were_unmounted(
    volumes: DiskVolumes, mounts: NotedMounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = (await volumes.set_up(with_volume("Memory")))["v"]
    write(path, "kept")
    monkeypatch.setattr(mounts, "unmount", lambda _: mounts.mounted.update({f"{path}/late": mounts.mounted.pop(path)}))

    with pytest.raises(VolumeFailed, match=r"UnmountVolume.TearDown failed for pod 12345678: .*/v/late is mounted"):
        await volumes.tear_down("12345678")

    assert "kept" == read(path)


async def test_a_root_directory_that_is_a_link_is_known_by_its_real_path(tmp_path: Path, mounts: NotedMounts) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "real")
    volumes = DiskVolumes(tmp_path / "root", NodeFacts("n"), mounts, ThreadPool("volumes", 4))

    path = (await volumes.set_up(with_volume("Memory")))["v"]

    assert str(tmp_path / "real" / PLACE / "v") == path
