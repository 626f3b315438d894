"""Processes are kept in the cgroups that are named for the node's parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from shell.csikit import NoThreads
from trikubelet.app.part_cgroups import LOOK_SECONDS, keep_part_cgroups

if TYPE_CHECKING:
    from trio.testing import MockClock


class FakeCgroups:
    """Notes what is moved; the cgroup ``/full`` takes nothing."""

    def __init__(self) -> None:
        self.moves: list[tuple[str, str]] = []

    def enter(self, path: str) -> None:
        self._note("enter", path)

    def gather(self, path: str) -> None:
        self._note("gather", path)

    def _note(self, what: str, path: str) -> None:
        self.moves.append((what, path))
        if path == "/full":
            raise OSError(28, "No space left on device", "/tree/full/cgroup.procs")


@pytest.mark.parametrize(
    ("parts", "wanted"),
    [
        ({"kubelet": "/k", "misc": "/m", "runtime": "/r"}, [("gather", "/m"), ("enter", "/k")]),
        ({"kubelet": "/k"}, [("enter", "/k")]),
    ],
)
async def test_processes_are_moved_at_the_start_and_every_minute(
    autojump_clock: MockClock, parts: dict[str, str], wanted: list[tuple[str, str]]
) -> None:
    cgroups = FakeCgroups()
    with trio.move_on_after(1.5 * LOOK_SECONDS):
        await keep_part_cgroups(parts, cgroups, NoThreads())

    assert wanted * 2 == cgroups.moves


async def test_a_cgroup_that_takes_no_process_is_logged_once_and_stops_nothing(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    cgroups = FakeCgroups()
    with trio.move_on_after(1.5 * LOOK_SECONDS):
        await keep_part_cgroups({"misc": "/full", "kubelet": "/k"}, cgroups, NoThreads())

    assert [("gather", "/full"), ("enter", "/k")] * 2 == cgroups.moves
    assert [
        "cannot move processes to the cgroup /full of systemCgroups: [Errno 28] No space left on device: "
        "'/tree/full/cgroup.procs'"
    ] == caplog.messages
