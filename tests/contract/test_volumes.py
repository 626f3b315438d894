"""The contract of ``ports.Volumes``, held by the disk (with mounts noted, not made) and by the host in memory."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from core.podkit import container, pod
from shell.mountkit import NotedMounts
from trikubelet.core.containers import NodeFacts
from trikubelet.core.containers.env_file import BYTES_MAX, EnvFile
from trikubelet.kit.threads import ThreadPool
from trikubelet.model import k8s
from trikubelet.model.errors import VolumeFailed
from trikubelet.model.runtime_config import Mount
from trikubelet.testing.memory_host import MemoryVolumes
from trikubelet.volumes.volumes import DiskVolumes

if TYPE_CHECKING:
    from trikubelet.ports import Volumes


def on_disk(tmp_path: Path) -> Volumes:
    return DiskVolumes(tmp_path, NodeFacts("n"), NotedMounts(), ThreadPool("volumes", 4))


def in_memory(_: Path) -> Volumes:
    return MemoryVolumes()


@pytest.fixture(params=[on_disk, in_memory])
def volumes(request: pytest.FixtureRequest, tmp_path: Path) -> Volumes:
    made: Volumes = request.param(tmp_path)
    return made


SCRATCH = k8s.Volume(name="scratch", empty_dir=k8s.EmptyDirVolumeSource())
MEMORY = k8s.Volume(name="memory", empty_dir=k8s.EmptyDirVolumeSource(medium="Memory"))
NODES = k8s.Volume(name="nodes", host_path=k8s.HostPathVolumeSource(path="/"))
STRANGE = k8s.Volume(name="strange", flex_volume=k8s.FlexVolumeSource(driver="d"))


async def test_every_volume_has_a_path_and_a_host_path_is_its_own(volumes: Volumes) -> None:
    paths = await volumes.set_up(pod(volumes=(SCRATCH, MEMORY, NODES)))

    assert {"scratch", "memory", "nodes"} == paths.keys()
    assert "/" == paths["nodes"]
    assert 3 == len(set(paths.values()))


async def test_setting_up_again_changes_nothing(volumes: Volumes) -> None:
    it = pod(volumes=(SCRATCH, MEMORY))

    assert await volumes.set_up(it) == await volumes.set_up(it)


async def test_a_sub_path_becomes_a_host_path_and_whole_volumes_stay_as_they_are(volumes: Volumes) -> None:
    asked = (k8s.VolumeMount(name="scratch", mount_path="/a"), k8s.VolumeMount(name="scratch", mount_path="/b"))
    it = pod(container("c", volume_mounts=asked), volumes=(SCRATCH,))
    path = (await volumes.set_up(it))["scratch"]
    mounts = (Mount("/a", path), Mount("/b", path, readonly=True, sub_path="part"), Mount("/etc/hosts", "/hosts"))

    whole, part, hosts = await volumes.resolve(it, it.spec.containers[0], mounts)

    assert mounts[0::2] == (whole, hosts)
    assert ("/b", True, "") == (part.container_path, part.readonly, part.sub_path)
    assert path != part.host_path
    await volumes.tear_down("12345678")


async def test_each_pod_has_its_own(volumes: Volumes) -> None:
    one = await volumes.set_up(pod(volumes=(SCRATCH,), meta={"uid": "u"}))
    other = await volumes.set_up(pod(volumes=(SCRATCH,), meta={"uid": "v"}))

    assert one["scratch"] != other["scratch"]


async def test_a_pod_without_volumes_needs_none(volumes: Volumes) -> None:
    assert {} == await volumes.set_up(pod())
    await volumes.tear_down("12345678")


async def test_taking_down_twice_is_taking_down_once_and_unknown_pods_have_nothing(volumes: Volumes) -> None:
    await volumes.set_up(pod(volumes=(SCRATCH, MEMORY), meta={"uid": "u"}))
    assert {"scratch", "memory"} == volumes.progress("u").keys()
    await volumes.tear_down("u")
    assert {} == volumes.progress("u")
    await volumes.tear_down("u")
    await volumes.tear_down("never-seen")


def exist(*paths: str) -> list[bool]:
    return [Path(path).exists() for path in paths]


async def test_taking_down_removes_the_directories_of_the_pod_alone(tmp_path: Path) -> None:
    volumes = on_disk(tmp_path)
    one = await volumes.set_up(pod(volumes=(SCRATCH, MEMORY), meta={"uid": "u"}))
    other = await volumes.set_up(pod(volumes=(SCRATCH,), meta={"uid": "v"}))

    await volumes.tear_down("u")

    assert [False, False, True] == exist(*one.values(), *other.values())


@pytest.mark.parametrize("uid", ["..", "../treasure", "/etc", ""])
async def test_what_is_no_uid_has_no_volumes_to_tear_down(uid: str, volumes: Volumes, tmp_path: Path) -> None:
    """The runtime's labels say whose what runs is, and anybody may have written them."""
    (tmp_path / "treasure/volumes/gold").mkdir(parents=True)

    with pytest.raises(ValueError, match="is no UID"):
        await volumes.tear_down(uid)

    assert (tmp_path / "treasure/volumes/gold").exists()


async def test_a_volume_that_is_not_supported_names_itself(volumes: Volumes) -> None:
    with pytest.raises(
        VolumeFailed, match=r'MountVolume.SetUp failed for volume "strange" : .*not supported'
    ) as failed:
        await volumes.set_up(pod(volumes=(SCRATCH, STRANGE)))
    assert "FailedMount" == failed.value.reason


async def test_every_volume_that_fails_is_reported_and_the_others_are_ready(volumes: Volumes) -> None:
    other = k8s.Volume(name="other", flex_volume=k8s.FlexVolumeSource(driver="d"))
    with pytest.raises(VolumeFailed) as failed:
        await volumes.set_up(pod(volumes=(STRANGE, SCRATCH, other)))
    assert ["strange", "other"] == [message.split('"')[1] for message in failed.value.messages]
    assert {"scratch"} == (await volumes.set_up(pod(volumes=(SCRATCH,)))).keys()


def leave(volumes: Volumes, path: str, content: bytes) -> None:
    """A container writes a file into its volume."""
    if isinstance(volumes, MemoryVolumes):
        volumes.left[path] = content
    else:
        Path(path).write_bytes(content)


async def test_variables_that_a_container_left_in_a_volume_can_be_read_if_it_is_not_too_large(volumes: Volumes) -> None:
    paths = await volumes.set_up(pod(volumes=(SCRATCH,)))
    text = b"A='1'\nB='2'\n"
    leave(volumes, f"{paths['scratch']}/a", text)
    leave(volumes, f"{paths['scratch']}/large", text.ljust(BYTES_MAX + 1))

    assert EnvFile({"B": "2"}, "", len(text)) == await volumes.read_env_file(paths["scratch"], "a", ["B"])
    with pytest.raises(OSError, match="larger than 65536 bytes"):
        await volumes.read_env_file(paths["scratch"], "large", ["B"])
    with pytest.raises(FileNotFoundError):
        await volumes.read_env_file(paths["scratch"], "b", ["B"])


async def test_one_file_of_a_volume_is_read_at_a_time_and_errors_hide_its_path(
    volumes: Volumes,
) -> None:
    paths = await volumes.set_up(pod(volumes=(SCRATCH,)))
    answers: list[EnvFile | OSError] = []

    async def read(name: str) -> None:
        try:
            answers.append(await volumes.read_env_file(paths["scratch"], name, ["A"]))
        except OSError as error:
            answers.append(error)

    for name in ("a", "b"):
        leave(volumes, f"{paths['scratch']}/{name}", b"A='1'")
    async with trio.open_nursery() as nursery:
        for name in ("a", "b"):
            nursery.start_soon(read, name)

    (refused,) = (answer for answer in answers if isinstance(answer, OSError))
    assert errno.EBUSY == refused.errno
    assert paths["scratch"] not in str(refused)
    assert EnvFile({"A": "1"}, "", 5) in answers


async def test_a_node_without_drivers_uses_nothing_that_is_attached(volumes: Volumes) -> None:
    await volumes.set_up(pod(volumes=(SCRATCH,)))
    volumes.node_changed()
    assert (0, {}) == (len(volumes.in_use()), volumes.drivers())
    await volumes.tear_down("12345678")


async def test_what_no_pod_waits_for_begins_and_ends_with_its_caller(volumes: Volumes) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(volumes.run)
        nursery.cancel_scope.cancel()
