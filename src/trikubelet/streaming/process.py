"""A process' standard streams over SPDY, the runtime's side of version 4 of ``core.remote_command``.

    the client opens a stream for each channel ─► the runtime talks to the process ─► its exit code, as a Status

What the process is and how it is talked to is up to the runtime; ``Talk`` is what both sides hold.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec
import trio

from trikubelet.core.remote_command import STREAM_TYPE, StreamChannel, channels, failure
from trikubelet.model.frozen import Frozen
from trikubelet.model.runtime_errors import RuntimeCallError
from trikubelet.streaming.session import STREAMS_SECONDS_MAX

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from trikubelet.model.standard_streams import StandardStreams
    from trikubelet.streaming.session import Session, SpdyStream

log = logging.getLogger(__name__)

_SIZES_BYTES_MAX: Final = 4096
_READ: Final = frozenset({StreamChannel.STDIN.stream_type, StreamChannel.RESIZE.stream_type})


class Size(msgspec.Struct, frozen=True, rename="pascal"):
    """A terminal's size, in characters."""

    width: int = 0
    height: int = 0


class Talk(Frozen):
    """A client's end of a process: each stream that it wants, and the sizes of its terminal."""

    stdin: trio.abc.ReceiveStream | None
    stdout: trio.abc.SendStream | None
    stderr: trio.abc.SendStream | None
    resizes: SpdyStream | None

    async def sizes(self) -> AsyncGenerator[Size, None]:
        """Yield the sizes that the client's terminal is resized to; malformed ones are skipped."""
        said = b""
        while self.resizes is not None and (some := await self.resizes.receive_some()):
            *whole, said = (said + some).replace(b"}", b"}\n").split(b"\n")
            said = said[-_SIZES_BYTES_MAX:]
            for text in whole:
                if text.strip():
                    try:
                        yield msgspec.json.decode(text, type=Size)
                    except msgspec.DecodeError:
                        log.debug("A terminal's size that cannot be read: %r", text)


async def talk_to_process(session: Session, streams: StandardStreams, talk: Callable[[Talk], Awaitable[int]]) -> None:
    """Wait for the client's streams, let the runtime talk, and send how the process ended. ``talk`` returns its exit
    code and may raise RuntimeCallError, which is sent to the client."""
    opened: dict[str, SpdyStream] = {}
    wanted = {channel.stream_type for channel in channels(streams)}
    with trio.move_on_after(STREAMS_SECONDS_MAX):
        while wanted - opened.keys():
            try:
                stream = await session.opened.receive()
            except trio.EndOfChannel:
                return
            kind = stream.headers.get(STREAM_TYPE, "")
            if kind not in _READ:
                stream.deafen()
            if kind in wanted - opened.keys():
                opened[kind] = stream
            else:
                await stream.aclose()
    if wanted - opened.keys():
        return  # a client that does not say what it wants
    session.turn_down()
    stdin, stdout, stderr, error, resize = (opened.get(channel.stream_type) for channel in StreamChannel)
    assert error is not None
    try:
        status = _ended(await talk(Talk(stdin, stdout, stderr, resize)))
    except RuntimeCallError as wrong:
        status = failure(str(wrong))
    for said in (stdout, stderr):
        if said is not None:
            await said.send_eof()
    await error.send_all(msgspec.json.encode(status))
    for stream in opened.values():
        await stream.aclose()


def _ended(code: int) -> dict[str, Any]:
    """The Status that says how a process ended, as upstream's."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
