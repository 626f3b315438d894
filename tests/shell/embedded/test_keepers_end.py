"""How the agent's end of the keeper leaves it: at its end, killed, or, where that does nothing, behind."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.embedded.link import END_SECONDS_MAX, KILLED_SECONDS_MAX, KeeperDied, KeeperLink, start_keeper

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trio.testing import MockClock

NEVER = float("inf")


class Keeper:
    """A process that ends so many seconds after its kill, or never; ``ends_at`` by itself."""

    pid = 4711

    def __init__(self, ends_at: float = NEVER, dies_within: float = NEVER) -> None:
        self._ends_at = ends_at
        self._dies_within = dies_within
        self.was_killed = False

    def kill(self) -> None:
        self.was_killed = True
        self._ends_at = min(self._ends_at, trio.current_time() + self._dies_within)

    def poll(self) -> int | None:
        return None if trio.current_time() < self._ends_at else 0


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Our end of the link, and the keeper's, which has said what there is."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    its.send(json.dumps({"isolation": "none", "reason": "a test"}).encode())
    with ours, its:
        yield ours, its


async def leave(ours: socket.socket, keeper: Keeper) -> float:
    """Begin and be cancelled; how long that took."""
    link = KeeperLink(ours, keeper)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        await nursery.start(link.run)
        nursery.cancel_scope.cancel()
    return trio.current_time()


async def test_a_keeper_that_ends_is_not_killed(
    autojump_clock: MockClock, ends: tuple[socket.socket, socket.socket]
) -> None:
    keeper = Keeper(ends_at=1.0)

    assert 1.0 == pytest.approx(await leave(ends[0], keeper), abs=0.1)
    assert not keeper.was_killed


async def test_a_keeper_that_does_not_end_is_killed(
    autojump_clock: MockClock, ends: tuple[socket.socket, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    keeper = Keeper(dies_within=0.5)

    assert END_SECONDS_MAX + 0.5 == pytest.approx(await leave(ends[0], keeper), abs=0.1)
    assert keeper.was_killed
    assert [] == caplog.messages


async def test_a_keeper_that_does_not_die_of_that_is_left_behind_and_named(
    autojump_clock: MockClock, ends: tuple[socket.socket, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    assert END_SECONDS_MAX + KILLED_SECONDS_MAX == pytest.approx(await leave(ends[0], Keeper()), abs=0.1)
    assert ["The keeper, process 4711, survived SIGKILL: left behind"] == caplog.messages


async def test_that_it_died_is_told_however_long_it_takes_to_be_gone(
    autojump_clock: MockClock, ends: tuple[socket.socket, socket.socket]
) -> None:
    link = KeeperLink(ends[0], Keeper())  # type: ignore[arg-type]
    ends[1].shutdown(socket.SHUT_RDWR)

    with pytest.raises(KeeperDied):
        await link.run()


async def test_a_keeper_whose_agent_left_before_it_answered_ends_without_a_word(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    link = start_keeper(tmp_path)
    with trio.fail_after(60), trio.CancelScope() as scope:
        scope.cancel()
        await link.run()

    assert (0, "") == (link._process.returncode, capfd.readouterr().err)
