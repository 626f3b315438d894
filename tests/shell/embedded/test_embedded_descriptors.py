"""What is opened to start a command, where the process may open no more, or the command is given up: none is kept."""

from __future__ import annotations

import errno
import itertools
import json
import math
import os
import socket
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from trikubelet.embedded.commands import START_SECONDS_MAX, Commands
from trikubelet.embedded.link import Isolation, KeeperLink
from trikubelet.embedded.spawning import pipe_in, spawn_on_terminal, spawn_piped
from trikubelet.model.runtime_errors import RuntimeTimeout
from trikubelet.streaming.process import Talk

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trio.testing import MockClock

OPENING = ("pipe", "open", "openpty", "dup", "memfd_create")


async def piped(link: KeeperLink) -> object:
    return await spawn_piped(link, "id", {})


async def told(link: KeeperLink) -> object:
    fd, stream = pipe_in()
    try:
        return await spawn_piped(link, "id", {}, stdin=fd)
    finally:
        stream.close()


async def on_terminal(link: KeeperLink) -> object:
    return await spawn_on_terminal(link, "id", {}, None)


def fewer(monkeypatch: pytest.MonkeyPatch, may_open: int) -> None:
    """From now on only so many may be opened."""
    left = itertools.count(may_open, -1)

    def scarce(at_once: Callable[..., Any]) -> Callable[..., Any]:
        def opened(*args: Any, **more: Any) -> Any:
            if next(left) <= 0:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return at_once(*args, **more)

        return opened

    for name in OPENING:
        monkeypatch.setattr(os, name, scarce(getattr(os, name)))


@pytest.mark.parametrize(("opened", "spawn"), [(5, piped), (5, told), (5, on_terminal)])
async def test_a_command_that_is_not_started_keeps_no_descriptor(
    opened: int, spawn: Callable[[KeeperLink], Awaitable[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link = KeeperLink(ours, None)  # type: ignore[arg-type]
    before = os.listdir("/proc/self/fd")
    for may_open in itertools.count():
        with monkeypatch.context() as scarcity, trio.CancelScope() as attempt:
            attempt.cancel()  # it does not get beyond asking the keeper
            fewer(scarcity, may_open)
            with pytest.raises(OSError, match="Too many open files"):
                await spawn(link)
        assert before == os.listdir("/proc/self/fd"), f"with {may_open} allowed"
        assert {} == link._spawned
        if attempt.cancelled_caught:
            break
    assert opened == may_open

    link._control.close()
    its.close()


async def execute(commands: Commands) -> object:
    return await commands.execute("c", ["true"], 0)


async def converse(commands: Commands) -> object:
    return await commands.converse(
        "c", ["true"], Talk(trio.testing.memory_stream_pair()[0], None, None, None), tty=False
    )


async def converse_on_terminal(commands: Commands) -> object:
    return await commands.converse("c", ["true"], Talk(None, None, None, None), tty=True)


@pytest.mark.parametrize("patience_seconds", [math.inf, 1])
@pytest.mark.parametrize("ask", [execute, converse, converse_on_terminal])
async def test_a_command_that_does_not_start_is_killed_and_told_and_keeps_no_descriptor(
    ask: Callable[[Commands], Awaitable[object]], patience_seconds: float, autojump_clock: MockClock
) -> None:
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link = KeeperLink(ours, None)  # type: ignore[arg-type]
    container = SimpleNamespace(id="c", spec={"env": {}})
    pods: Any = SimpleNamespace(running=lambda _: container, isolation=Isolation("none", "a test"))
    before = os.listdir("/proc/self/fd")

    did_not_start = pytest.raises(RuntimeTimeout, match="the command was not started within 60 s")
    with did_not_start, trio.move_on_after(patience_seconds):
        await ask(Commands(pods, link))

    assert START_SECONDS_MAX == trio.current_time()
    assert before == os.listdir("/proc/self/fd")
    (id_,) = link._spawned
    its.settimeout(5)
    told = [json.loads(its.recv(4096)) for _ in range(2)]  # the descriptors that came with it are gone
    assert [{"spawn": id_, "join": None}, {"id": id_, "signal": 9, "group": False}] == told
    link._control.close()
    its.close()
