"""What syncs see of a pod: only its own life, and soon where somebody asks."""

from __future__ import annotations

import errno
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import pytest
import trio

from trikubelet.model.pod_notes import Note
from trikubelet.model.runtime import ContainerState, ContainerStatus, PodObservation, SandboxState, SandboxStatus
from trikubelet.pods.observations import Observations
from trikubelet.testing.memory_host import MemoryPodFiles

OLD, NEW = (ContainerStatus(id_, "main", 0, ContainerState.EXITED, at) for id_, at in (("old", 6), ("new", 5)))
"""The clock was set back meanwhile."""
BOX = SandboxStatus("box", "uid-web", "web", "default", 0, SandboxState.NOTREADY, 6)


class Cache:
    """A cache with one pod in it, of which a test says whether it was observed lately."""

    def __init__(self, *containers: ContainerStatus, is_newer: bool = True) -> None:
        self.seen = PodObservation("uid-web", sandboxes=(BOX,), containers=containers)
        self._is_newer = is_newer

    def get(self, _: str) -> PodObservation:
        """The pod."""
        return self.seen

    def is_newer(self, _: str, __: float) -> bool:
        """Return what a test set."""
        return self._is_newer

    async def newer_than(self, _: str, __: float) -> PodObservation:
        """The pod."""
        await trio.lowlevel.checkpoint()
        return self.seen


class Relister:
    """Keeps who was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def request_relist(self, uid: str) -> None:
        """Keep it."""
        self.asked.append(uid)

    def request_inspection(self, uid: str) -> None:
        """Nobody asks."""

    def changing(self, uid: str) -> AbstractContextManager[None]:
        """Nobody acts."""
        return nullcontext()


async def test_of_a_pod_that_began_beside_remains_only_what_was_made_since_counts() -> None:
    cache, files = Cache(OLD), MemoryPodFiles()
    observations = Observations(cache, Relister(), files)
    assert (OLD,) == (await observations.newer_than("uid-web", 0)).containers

    observations.begin_despite_leftovers("uid-web")
    cache.seen = replace(cache.seen, containers=(NEW, OLD))
    assert (NEW,) == (await observations.newer_than("uid-web", 0)).containers
    assert (NEW, OLD) == (await observations.all_instances("uid-web")).containers

    assert (NEW,) == observations.current_instance(cache.seen).containers

    observations.note_earlier("uid-web")
    observations = Observations(cache, Relister(), files)  # the next agent
    seen = await observations.newer_than("uid-web", 0)
    assert ((NEW,), (BOX,), {"old", "box"}) == (seen.containers, seen.sandboxes, seen.earlier)

    observations.forget("uid-web")
    assert (NEW, OLD) == (await observations.newer_than("uid-web", 0)).containers


async def test_that_it_cannot_be_noted_is_said_once_though_it_is_tried_with_every_sync(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files = MemoryPodFiles()
    observations = Observations(Cache(OLD), Relister(), files)
    observations.begin_despite_leftovers("uid-web")

    def refuse(uid: str, note: Note, content: bytes) -> None:
        raise OSError(errno.ENOTEMPTY, "Directory not empty", ".earlier.new")

    with monkeypatch.context() as patch:
        patch.setattr(files, "note", refuse)
        for _ in range(3):
            observations.note_earlier("uid-web")
    assert 1 == caplog.text.count("cannot write the note of its earlier instance: ")

    observations.note_earlier("uid-web")
    assert b"" != files.noted("uid-web", Note.EARLIER)

    said = 1
    for is_over in (lambda: None, lambda: observations.forget("uid-web")):  # it could be noted; it is another instance
        is_over()
        observations.begin_despite_leftovers("uid-web")
        with monkeypatch.context() as patch:
            patch.setattr(files, "note", refuse)
            observations.note_earlier("uid-web")
        said += 1
        assert said == caplog.text.count("cannot write the note of its earlier instance: ")


@pytest.mark.parametrize(
    ("asked", "is_newer", "soon"),
    [
        pytest.param(["uid-web"], False, True, id="it is not known, and wanted soon"),
        pytest.param([], True, True, id="it is known"),
        pytest.param([], False, False, id="the next list will do"),
    ],
)
async def test_a_pod_is_looked_at_where_it_is_wanted_soon_and_not_known(
    asked: list[str], is_newer: bool, soon: bool
) -> None:
    relister = Relister()
    await Observations(Cache(is_newer=is_newer), relister, MemoryPodFiles()).newer_than("uid-web", 0, soon=soon)

    assert asked == relister.asked
