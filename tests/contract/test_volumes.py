"""The contract of ``ports.Volumes``, held by the disk (with mounts noted, not made) and by the host in memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from core.podkit import pod
from shell.mountkit import NotedMounts
from trikubelet.core.containers import NodeFacts
from trikubelet.kit.threads import ThreadPool
from trikubelet.model import k8s
from trikubelet.model.errors import VolumeFailed
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
OBJECT = k8s.Volume(name="object", config_map=k8s.ConfigMapVolumeSource(name="o"))


async def test_every_volume_has_a_path_and_a_host_path_is_its_own(volumes: Volumes) -> None:
    paths = await volumes.set_up(pod(volumes=(SCRATCH, MEMORY, NODES)))

    assert {"scratch", "memory", "nodes"} == paths.keys()
    assert "/" == paths["nodes"]
    assert 3 == len(set(paths.values()))


async def test_setting_up_again_changes_nothing(volumes: Volumes) -> None:
    it = pod(volumes=(SCRATCH, MEMORY))

    assert await volumes.set_up(it) == await volumes.set_up(it)


async def test_each_pod_has_its_own(volumes: Volumes) -> None:
    one = await volumes.set_up(pod(volumes=(SCRATCH,), meta={"uid": "u"}))
    other = await volumes.set_up(pod(volumes=(SCRATCH,), meta={"uid": "v"}))

    assert one["scratch"] != other["scratch"]


async def test_a_pod_without_volumes_needs_none(volumes: Volumes) -> None:
    assert {} == await volumes.set_up(pod())
    await volumes.tear_down("12345678")


async def test_taking_down_twice_is_taking_down_once_and_unknown_pods_have_nothing(volumes: Volumes) -> None:
    await volumes.set_up(pod(volumes=(SCRATCH, MEMORY), meta={"uid": "u"}))
    await volumes.tear_down("u")
    await volumes.tear_down("u")
    await volumes.tear_down("never seen")


async def test_a_volume_that_is_not_supported_names_itself(volumes: Volumes) -> None:
    with pytest.raises(VolumeFailed, match=r'MountVolume.SetUp failed for volume "object" : .*not supported') as failed:
        await volumes.set_up(pod(volumes=(SCRATCH, OBJECT)))
    assert "FailedMount" == failed.value.reason
