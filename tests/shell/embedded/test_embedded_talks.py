"""Who talks to containers of the embedded runtime: attached clients, and commands whose client goes away, on each kind
of isolation. What any runtime does is in ``contract.streaming_suite``.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
import trio

from contract.streaming_suite import LISTENS, SPEAKS, TERMINAL, talking, told
from shell.embedded.embeddedkit import PREFIXES, gone, processes_with, running, running_apart
from trikubelet.embedded.commands import PIECES_WAITING_MAX, Listener, _collect, _Outlet
from trikubelet.embedded.log import ContainerLog
from trikubelet.embedded.pods import _pump
from trikubelet.host.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from shell.embedded.embeddedkit import Embedded
    from trikubelet.model.standard_streams import StandardStreams

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within


@pytest.fixture(params=list(PREFIXES))
async def embedded(request: pytest.FixtureRequest) -> AsyncIterator[Embedded]:
    """A runtime of each kind."""
    async with running_apart(request.param) as (found, _):
        yield found


async def test_attached_clients_use_the_containers_streams_in_turn(embedded: Embedded) -> None:
    container_id = await embedded.start("while read a; do echo heard $a; done; echo deaf; sleep 1000", stdin=True)
    for word in (b"one", b"two"):
        async with talking(await embedded.runtime.attach_url(container_id, SPEAKS), SPEAKS) as socket:
            assert b"\1" == await socket.message()
            await socket.say(0, word + b"\n")
            assert b"\1heard " + word + b"\n" == await socket.message()
            await socket.say(255, b"\0")
    assert ["heard one", "heard two"] == embedded.output()


async def test_container_with_stdin_once_gets_the_clients_end(embedded: Embedded) -> None:
    container_id = await embedded.start("cat; echo over; sleep 0.2", stdin=True, stdin_once=True)

    out, _, status = await told(await embedded.runtime.attach_url(container_id, SPEAKS), SPEAKS, b"all of it\n")

    assert (b"all of it\nover\n", "Success") == (out, status["status"])
    assert 0 == (await embedded.exited(container_id)).exit_code


async def test_a_command_ends_with_its_client(embedded: Embedded, tmp_path: Path) -> None:
    container_id = await embedded.start("sleep 1000", envs=(("MARKER", str(tmp_path)),))
    for streams in (SPEAKS, TERMINAL):
        command = ["sh", "-c", f"export MARKER={tmp_path}-exec; echo on; sleep 1000 & wait"]
        async with talking(await embedded.runtime.exec_url(container_id, command, streams), streams) as socket:
            said = b""
            while b"on" not in said:
                said += await socket.message() or b""
            assert processes_with(f"MARKER={tmp_path}-exec")
        await gone(f"MARKER={tmp_path}-exec")
    assert processes_with(f"MARKER={tmp_path}")


async def test_a_command_may_end_while_it_is_told_more_than_it_wants(embedded: Embedded) -> None:
    container_id = await embedded.start("sleep 1000")

    url = await embedded.runtime.exec_url(container_id, ["head", "-c", "10"], SPEAKS)
    out, _, status = await told(url, SPEAKS, b"x" * 5_000_000)

    assert (b"x" * 10, "Success") == (out, status["status"])


async def test_a_process_that_a_command_leaves_behind_does_not_keep_its_end_back(embedded: Embedded) -> None:
    container_id = await embedded.start("sleep 1000")

    url = await embedded.runtime.exec_url(container_id, ["sh", "-c", "echo said; (sleep 1000 &)"], LISTENS)
    out, _, status = await told(url, LISTENS)

    assert (b"said\n", "Success") == (out, status["status"])


async def test_output_is_whole_for_a_client_that_takes_its_time(embedded: Embedded) -> None:
    container_id = await embedded.start("sleep 1000")

    url = await embedded.runtime.exec_url(container_id, ["sh", "-c", "head -c 3000000 /dev/zero"], LISTENS)
    async with talking(url, LISTENS) as socket:
        found = await socket.everything()

    assert 3_000_000 == len(found[1])
    assert "Success" == json.loads(found[3])["status"]


class Terminal(trio.abc.ReceiveStream):
    """Our end of one whose process has ended, having written something that the kernel has not announced: ``way`` is
    what reading says meanwhile."""

    def __init__(self, way: str, written: bytes) -> None:
        self._way = way
        self._read, write = os.pipe()
        os.write(write, written)
        os.close(write)
        os.set_blocking(self._read, False)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if self._way == "broken":
            await trio.lowlevel.checkpoint()
            raise trio.BrokenResourceError
        await trio.sleep_forever()
        raise AssertionError

    def fileno(self) -> int:
        return self._read

    async def aclose(self) -> None:
        os.close(self._read)
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("way", ["broken", "silent"])
async def test_the_last_words_on_a_terminal_are_read_before_the_kernel_announces_them(
    way: str, autojump_clock: trio.testing.MockClock
) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    terminal: Any = Terminal(way, b"bye")
    outlet = _Outlet(terminal, ours)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outlet.run)
        outlet.hurry()
    await ours.aclose()
    assert b"bye" == b"".join([bytes(some) async for some in theirs])


async def test_what_an_ended_process_wrote_is_kept_though_there_was_no_time_to_read_it(tmp_path: Path) -> None:
    def written() -> trio.lowlevel.FdStream:
        read, write = os.pipe()
        os.write(write, b"bye")
        os.close(write)
        return trio.lowlevel.FdStream(read)

    collected, listener, log = bytearray(), Listener(), ContainerLog(str(tmp_path / "log"), SystemClock())
    with trio.CancelScope() as scope:
        scope.cancel()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_collect, written(), collected)
            nursery.start_soon(_pump, log, {listener}, "stdout", written())
    log.close()
    assert (b"bye", ("stdout", b"bye")) == (bytes(collected), listener.output.receive_nowait())
    assert "stdout P bye" in (tmp_path / "log").read_text()


def test_slow_attached_client_is_dropped_and_delays_no_other() -> None:
    listener = Listener()
    for number in range(PIECES_WAITING_MAX + 5):
        assert (number > PIECES_WAITING_MAX) == listener.is_late
        listener.put("stdout", b"x")
    assert PIECES_WAITING_MAX == listener.output.statistics().current_buffer_used


@pytest.mark.parametrize(
    ("streams", "envs", "term"),
    [
        (TERMINAL, (), "xterm"),
        (TERMINAL, (("TERM", "vt100"),), "vt100"),
        (LISTENS, (), "none"),
    ],
)
async def test_a_command_on_a_terminal_has_a_terminal_type_unless_its_pod_gives_one(
    streams: StandardStreams, envs: tuple[tuple[str, str], ...], term: str, tmp_path: Path
) -> None:
    async with running(tmp_path) as embedded:
        container_id = await embedded.start("exec sleep 1000", envs=envs)
        url = await embedded.runtime.exec_url(container_id, ["sh", "-c", "env | grep ^TERM= || echo none"], streams)
        said, _, status = await told(url, streams)
    assert ("Success", term) == (status["status"], said.decode().strip().removeprefix("TERM="))
