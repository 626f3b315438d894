"""A file system that does not answer: its pod waits and can go, and nobody else notices. Real threads that hang for as
long as the test says; virtual time passes meanwhile."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest
import trio

from core.podkit import pod
from shell.mountkit import NotedMounts
from trikubelet.core.containers import NodeFacts
from trikubelet.kit.threads import ThreadPool
from trikubelet.model import k8s
from trikubelet.model.errors import VolumeFailed
from trikubelet.volumes.volumes import DiskVolumes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from trikubelet.model.k8s import Pod

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

UID = "12345678"


class HangingMounts(NotedMounts):
    """Mounts of a server that does not answer until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.answer = threading.Event(), threading.Event()

    def mount_nfs(self, source: str, path: str, options: Sequence[str]) -> None:
        self.begun.set()
        assert self.answer.wait(60)
        os.stat(path)  # the kernel mounts on no directory that was removed meanwhile
        super().mount_nfs(source, path, options)


@pytest.fixture
def mounts() -> Iterator[HangingMounts]:
    mounts = HangingMounts()
    yield mounts
    mounts.answer.set()


@pytest.fixture
def volumes(tmp_path: Path, mounts: HangingMounts) -> DiskVolumes:
    return DiskVolumes(tmp_path, NodeFacts("n"), mounts, ThreadPool("volumes", 1, 16))


def hanging(uid: str = UID) -> Pod:
    nfs = k8s.NFSVolumeSource(server="dead", path="/")
    scratch = k8s.Volume(name="scratch", empty_dir=k8s.EmptyDirVolumeSource())
    return pod(volumes=(scratch, k8s.Volume(name="v", nfs=nfs)), meta={"uid": uid})


async def give_up(volumes: DiskVolumes, mounts: HangingMounts) -> None:
    """A sync that ends while the mount hangs, and nothing else of it: the other volume is ready."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(volumes.set_up, hanging())
        await trio.to_thread.run_sync(mounts.begun.wait)
        while not volumes.progress(UID).get("scratch", "").startswith("ready at "):
            await trio.lowlevel.checkpoint()  # its thread is a real one, and has no event to wait for
        nursery.cancel_scope.cancel()


async def test_what_hangs_is_not_begun_twice_and_is_reported(volumes: DiskVolumes, mounts: HangingMounts) -> None:
    await give_up(volumes, mounts)

    with pytest.raises(VolumeFailed, match=r'volume "v" : .*earlier operation has not ended'):
        await volumes.set_up(hanging())

    told = volumes.progress(UID)
    assert told["scratch"].startswith("ready at ")
    assert "earlier work has not ended yet" == told["v"]


async def test_another_pod_is_not_held_up(volumes: DiskVolumes, mounts: HangingMounts) -> None:
    await give_up(volumes, mounts)
    scratch = k8s.Volume(name="scratch", empty_dir=k8s.EmptyDirVolumeSource(medium="Memory"))

    assert {"scratch"} == (await volumes.set_up(pod(volumes=(scratch,), meta={"uid": "other"}))).keys()


@pytest.mark.parametrize("is_given_up", [False, True])
async def test_a_pod_that_comes_back_gets_no_volume_while_its_earlier_ones_are_removed(
    is_given_up: bool, volumes: DiskVolumes, mounts: HangingMounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, let_go, unmount = trio.Event(), threading.Event(), mounts.unmount

    def hang(path: str) -> None:
        trio.from_thread.run_sync(begun.set)
        assert let_go.wait(60)
        unmount(path)

    memory = k8s.Volume(name="memory", empty_dir=k8s.EmptyDirVolumeSource(medium="Memory"))
    scratch = k8s.Volume(name="scratch", empty_dir=k8s.EmptyDirVolumeSource())
    await volumes.set_up(pod(volumes=(memory,), meta={"uid": UID}))
    monkeypatch.setattr(mounts, "unmount", hang)
    again = pod(volumes=(scratch,), meta={"uid": UID})
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(volumes.tear_down, UID)
            await begun.wait()
            with pytest.raises(VolumeFailed, match="of an earlier instance of the pod are still being removed"):
                await volumes.set_up(again)
            if is_given_up:
                nursery.cancel_scope.cancel()
            else:
                let_go.set()
        if is_given_up:
            with pytest.raises(VolumeFailed, match="of an earlier instance of the pod are still being removed"):
                await volumes.set_up(again)
    finally:
        let_go.set()

    with trio.fail_after(60):
        while UID in volumes._threads.running("torn down"):  # noqa: ASYNC110 - a thread tells nobody
            await trio.sleep(0.001)
    assert {"scratch"} == (await volumes.set_up(again)).keys()


async def test_pods_on_a_dead_server_delay_no_local_volumes(volumes: DiskVolumes, mounts: HangingMounts) -> None:
    dead = k8s.NFSVolumeSource(server="dead", path="/")
    four = tuple(k8s.Volume(name=f"v{number}", nfs=dead) for number in range(4))
    scratch = k8s.Volume(name="scratch", empty_dir=k8s.EmptyDirVolumeSource(medium="Memory"))
    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(volumes.set_up, pod(volumes=four, meta={"uid": f"stuck-{number}"}))
        while sum(map(len, (volumes.progress(f"stuck-{number}") for number in range(3)))) < 12:
            await trio.lowlevel.checkpoint()

        with trio.fail_after(60):
            await volumes.set_up(pod(volumes=(scratch,), meta={"uid": "other"}))
            await volumes.tear_down("other")
        nursery.cancel_scope.cancel()


async def test_its_pod_can_go_meanwhile_and_what_comes_late_finds_no_place(
    volumes: DiskVolumes, mounts: HangingMounts, tmp_path: Path
) -> None:
    await give_up(volumes, mounts)

    await volumes.tear_down(UID)

    assert [] == list((tmp_path / "pods" / UID / "volumes").iterdir())
    assert {"v"} == volumes.progress(UID).keys()
    mounts.answer.set()
    with trio.fail_after(60):
        while volumes.progress(UID):  # noqa: ASYNC110 - a thread tells nobody
            await trio.sleep(0.001)
    assert {} == mounts.mounted


async def test_once_it_answers_the_next_sync_finds_it_mounted(volumes: DiskVolumes, mounts: HangingMounts) -> None:
    await give_up(volumes, mounts)
    mounts.answer.set()
    with trio.fail_after(60):
        while "v" in volumes._threads.running(UID):  # noqa: ASYNC110 - a thread tells nobody
            await trio.sleep(0.001)

    path = (await volumes.set_up(hanging()))["v"]

    assert {path} == mounts.mounted.keys()
    assert f"ready at {path}" == volumes.progress(UID)["v"]
