"""Which plugin has which kind of volume, and what each is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from core.podkit import pod
from shell.mountkit import NotedMounts
from trikubelet.core.containers import NodeFacts
from trikubelet.core.volume_plugins import PLUGIN_NAMES
from trikubelet.kit.threads import ThreadPool
from trikubelet.model import k8s
from trikubelet.model.errors import VolumeFailed
from trikubelet.volumes.plugin import VolumePlugin
from trikubelet.volumes.volumes import DiskVolumes

if TYPE_CHECKING:
    from pathlib import Path

HOST = k8s.Volume(name="v", host_path=k8s.HostPathVolumeSource(path="/etc"))


class Noting(VolumePlugin):
    """A plugin that notes what it is asked, and fails as it is told."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.fails: OSError | None = None

    async def prepare(self, pod: k8s.Pod, volume: k8s.Volume) -> str:
        return await self._note(f"prepare {volume.name}") or "/somewhere"

    async def refresh(self, pod: k8s.Pod, volume: k8s.Volume, path: str) -> None:
        await self._note(f"refresh {volume.name} at {path}")

    def release(self, uid: str) -> None:
        self.asked.append(f"release {uid}")

    async def remove(self, uid: str) -> None:
        await self._note(f"remove {uid}")

    async def _note(self, what: str) -> None:
        await trio.lowlevel.checkpoint()
        self.asked.append(what)
        if self.fails is not None:
            raise self.fails


@pytest.fixture
def volumes(tmp_path: Path) -> DiskVolumes:
    return DiskVolumes(tmp_path, NodeFacts("n"), NotedMounts(), ThreadPool("volumes", 4))


def test_each_kind_that_has_a_name_has_a_plugin(volumes: DiskVolumes) -> None:
    assert PLUGIN_NAMES.keys() == volumes._plugins.keys()


async def test_a_plugin_prepares_once_refreshes_what_the_pod_has_and_removes_it(volumes: DiskVolumes) -> None:
    noting = Noting()
    volumes._plugins = {"host_path": noting, "nfs": noting}
    it = pod(volumes=(HOST,), meta={"uid": "u"})
    async with trio.open_nursery() as nursery:
        await nursery.start(volumes.run)
        assert {"v": "/somewhere"} == await volumes.set_up(it)
        assert {"v": "/somewhere"} == await volumes.set_up(it)
        await volumes.tear_down("u")
        assert {"v": "/somewhere"} == await volumes.set_up(it)
        nursery.cancel_scope.cancel()

    assert ["prepare v", "refresh v at /somewhere", "release u", "remove u", "prepare v"] == noting.asked


async def test_what_a_plugin_cannot_remove_is_reported_and_asked_again(volumes: DiskVolumes) -> None:
    noting, after = Noting(), Noting()
    noting.fails = OSError("it is busy")
    volumes._plugins = {"host_path": noting, "nfs": after}
    for _ in range(2):
        with pytest.raises(VolumeFailed, match=r"UnmountVolume.TearDown failed for pod u: it is busy"):
            await volumes.tear_down("u")
    noting.fails = None
    await volumes.tear_down("u")

    assert ["release u", "remove u"] * 3 == noting.asked
    assert ["release u", "release u", "release u", "remove u"] == after.asked
