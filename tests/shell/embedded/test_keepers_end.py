"""How the agent's end of the keeper leaves it: at its end, killed, or, where that does nothing, behind."""

from __future__ import annotations

import json
import socket
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.cri.channel import open_channel
from trikubelet.cri.endpoint import endpoint_at
from trikubelet.cri.runtime import CriRuntime
from trikubelet.cri.server import FAREWELL_SECONDS_MAX
from trikubelet.embedded import disk_records, runtime
from trikubelet.embedded.commands import DRAIN_SECONDS_MAX
from trikubelet.embedded.link import (
    END_SECONDS_MAX,
    KILLED_SECONDS_MAX,
    KeeperDied,
    KeeperLink,
    StartGivenUp,
    start_keeper,
)
from trikubelet.embedded.pods import Pods
from trikubelet.model.runtime_config import ContainerConfig, SandboxConfig
from trikubelet.model.runtime_errors import RuntimeCallError, RuntimeTimeout

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
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


async def no_thread(_threads: object, work: Callable[[], object], *_: object) -> object:
    await trio.lowlevel.checkpoint()
    return work()


async def execute(client: CriRuntime) -> None:
    await client.exec_sync("c", ["true"], 100)


async def start(client: CriRuntime) -> None:
    sandbox = SandboxConfig("uid-1", "pod", "default", 0)
    sandbox_id = await client.run_sandbox(sandbox)
    config = ContainerConfig("main", 0, "host", command=("true",))
    await client.start_container(await client.create_container(sandbox_id, config, sandbox))


@pytest.mark.parametrize("ask", [execute, start])
async def test_a_start_that_a_keeper_does_not_answer_keeps_no_runtime_that_goes_down_and_says_so(
    ask: Callable[[CriRuntime], Awaitable[None]],
    autojump_clock: MockClock,
    ends: tuple[socket.socket, socket.socket],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    link = KeeperLink(ends[0], Keeper(ends_at=0))  # type: ignore[arg-type]
    monkeypatch.setattr(runtime, "start_keeper", lambda _: link)
    monkeypatch.setattr(disk_records, "on_disk", no_thread)  # which virtual time would not wait for
    monkeypatch.setattr(Pods, "running", lambda *_: SimpleNamespace(id="c", spec={"env": {}}))
    path = str(tmp_path / "cri.sock")
    said: list[str] = []
    note = Pods._failed
    monkeypatch.setattr(Pods, "_failed", lambda self, one, message: (said.append(message), note(self, one, message)))

    async def call() -> None:
        async with open_channel(endpoint_at(path)) as channel:
            with pytest.raises(RuntimeCallError, match="was not started: the embedded runtime is stopping"):
                await ask(CriRuntime(channel))

    async with trio.open_nursery() as client:
        async with trio.open_nursery() as services:
            await services.start(runtime.run_embedded, path, tmp_path)
            client.start_soon(call)
            await trio.sleep(5)
            services.cancel_scope.cancel()
        ended_at = trio.current_time()

    assert 5 + FAREWELL_SECONDS_MAX + DRAIN_SECONDS_MAX >= ended_at
    assert ["not started: the embedded runtime is stopping"] * (ask is start) == said


async def test_a_start_has_its_time_and_none_once_the_runtime_goes_down(
    autojump_clock: MockClock, ends: tuple[socket.socket, socket.socket]
) -> None:
    link = KeeperLink(ends[0], Keeper())  # type: ignore[arg-type]
    with pytest.raises(StartGivenUp, match="not started within 60 s") as late:
        await link.start_within(60, trio.sleep_forever)
    assert 60 == trio.current_time()
    assert isinstance(late.value.answer("c"), RuntimeTimeout)

    link.give_up_starts()
    with pytest.raises(StartGivenUp, match="not started: the embedded runtime is stopping") as down:
        await link.start_within(60, trio.sleep_forever)
    assert 60 == trio.current_time()
    assert "UNAVAILABLE" == getattr(down.value.answer("c"), "code", "")


async def test_no_start_is_kept_that_is_over(ends: tuple[socket.socket, socket.socket]) -> None:
    link = KeeperLink(ends[0], Keeper())  # type: ignore[arg-type]

    async def started() -> str:
        await trio.lowlevel.checkpoint()
        return repr(link)

    assert "<KeeperLink 0 commands, 1 starts in progress>" == await link.start_within(60, started)
    assert "<KeeperLink 0 commands, 0 starts in progress>" == repr(link)


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


async def test_keeper_ends_silently_if_its_agent_left_before_the_answer(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    link = start_keeper(tmp_path)
    with trio.fail_after(60), trio.CancelScope() as scope:
        scope.cancel()
        await link.run()

    assert (0, "") == (link._process.returncode, capfd.readouterr().err)
