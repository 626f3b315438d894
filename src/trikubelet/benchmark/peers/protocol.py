"""The requests to a peer of the benchmark, and its answers.

A peer is a long-lived process that does what PLEG does, once for each request. It is started with
``--socket PATH`` to relist over a CRI socket (``--streaming``: streamed lists, where it does not choose by itself), or
with ``--bytes`` to be given the undecoded list replies in files. Each line on its standard input is a JSON object, and
each but the last is answered by one line:

    {"do": "relist"}                       list, compare, inspect what changed, publish it (--socket)
    {"do": "observe", "sandboxes": [path, …], "containers": [path, …]}
                                           decode and compare (--bytes); "fail": [uid, …] are pods whose inspection is
                                           taken to have failed, that of the others to have succeeded
    {"do": "events"}                       [{"pod", "type", "id"}, …]: what happened since it was last asked for, sorted
    {"do": "forget"}                       how many of them there were; they are not sent any more
    {"do": "memory"}                       {"heap_bytes", "rss_bytes", "peak_rss_bytes"}, the heap after its garbage is
                                           collected: what is in use, not what is held for reuse
    {"do": "quit"}

"relist" and "observe" answer wall_ns, cpu_ns (all threads), events (how many), error (why there is no list, or null);
"relist" also inspected (pods), list_ns (until the lists are in and decoded), first_published_ns and last_published_ns
(null where nothing was), stall_ns (the longest time the event loop was kept, if asked for by "stall": true). Asked with
"count": true, "observe" answers allocs (memory blocks held more than before) and alloc_bytes (bytes held at most beyond
those before); counting is slow, so no round is both counted and timed. Go counts for nothing, and counts everything
that was ever allocated; Python cannot count what has been freed again. Files are read before the clock starts.

The peer in Go speaks the same; the types of events are upstream's names. ContainerChanged is never sent, as upstream's
never is.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import trio
from google.protobuf.message import DecodeError

from trikubelet.benchmark.peers.usage import Cost, StallWatch, counting, measured, memory
from trikubelet.cri.channel import open_channel
from trikubelet.cri.endpoint import endpoint_at
from trikubelet.model.runtime_errors import RuntimeCallError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from contextlib import AbstractAsyncContextManager

    from trikubelet.cri.channel import Channel


class Event(NamedTuple):
    """Something that happened to ``id``, a container or sandbox of ``pod``; ``type`` in upstream's words. A PodSync is
    about the pod alone and has no id."""

    pod: str
    type: str
    id: str = ""


@dataclass(slots=True)
class Round:
    """Owns the figures of one relist over a socket: the code that relists reports them, as it happens."""

    events: list[Event] = field(default_factory=list)
    listed_ns: int = 0
    published_ns: list[int] = field(default_factory=list)
    inspected: int = 0
    error: str | None = None

    def listed(self) -> None:
        """The lists are in and decoded."""
        self.listed_ns = time.perf_counter_ns()

    def published(self) -> None:
        """A pod was inspected, and what was found is to be had; or that it failed."""
        self.published_ns.append(time.perf_counter_ns())

    def answer(self, began_ns: int) -> dict[str, object]:
        """Its part of the answer to "relist"."""
        first, last = (self.published_ns[at] - began_ns if self.published_ns else None for at in (0, -1))
        return {
            "list_ns": self.listed_ns - began_ns if self.listed_ns else None,
            "first_published_ns": first,
            "last_published_ns": last,
            "inspected": self.inspected,
        }


class Observer(Protocol):
    """Decodes and compares."""

    def observe(
        self, sandboxes: Sequence[bytes], containers: Sequence[bytes], fail: Collection[str]
    ) -> Sequence[Event]:
        """Return the events since the last lists that could be read. Raises ValueError or protobuf's DecodeError for
        lists that cannot be, and nothing has changed then."""


class Relister(Protocol):
    """Relists over a socket."""

    async def relist(self, round_: Round) -> None:
        """Once, inspections included. Raises RuntimeCallError when there is no list, unless it notes that itself."""


def main(
    observer: Callable[[], Observer], relister: Callable[[Channel, bool], AbstractAsyncContextManager[Relister]]
) -> None:
    """Be a peer until asked to quit. ``relister`` is given a channel, and whether to ask for streamed lists."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--socket", type=Path, help="CRI socket to relist over")
    where.add_argument("--bytes", action="store_true", help="relist what the replies in files say")
    parser.add_argument("--streaming", action="store_true", help="ask for streamed lists")
    flags = parser.parse_args()

    async def serve() -> None:
        async with AsyncExitStack() as stack:
            if flags.bytes:
                peer = Peer(observer(), None)
            else:
                channel = await stack.enter_async_context(open_channel(endpoint_at(str(flags.socket.absolute()))))
                peer = Peer(None, await stack.enter_async_context(relister(channel, flags.streaming)))
            async for line in trio.wrap_file(sys.stdin):
                asked = json.loads(line)
                if asked["do"] == "quit":
                    return
                sys.stdout.write(json.dumps(await peer.answer(asked)) + "\n")
                sys.stdout.flush()

    trio.run(serve)


class Peer:
    """Owns the events that were not asked for yet."""

    def __init__(self, observer: Observer | None, relister: Relister | None) -> None:
        self._observer = observer
        self._relister = relister
        self._events: list[Event] = []

    async def answer(self, asked: dict[str, Any]) -> object:
        """The answer to any question but "quit". Raises ValueError for one that makes no sense here."""
        match asked["do"]:
            case "relist" if self._relister is not None:
                return await self._relist(self._relister, with_stall=asked.get("stall", False))
            case "observe" if self._observer is not None:
                return self._observe(self._observer, asked)
            case "events":
                taken, self._events = self._events, []
                return [event._asdict() for event in sorted(taken)]
            case "forget":
                count, self._events = len(self._events), []
                return count
            case "memory":
                return memory()
        raise ValueError(f"cannot {asked['do']!r} here")

    def _observe(self, observer: Observer, asked: dict[str, Any]) -> dict[str, object]:
        sandboxes, containers = (
            [Path(path).read_bytes() for path in asked[kind]] for kind in ("sandboxes", "containers")
        )
        events: Sequence[Event] = ()
        error = None
        with counting() if asked.get("count", False) else nullcontext() as counted, measured() as cost:
            try:
                events = observer.observe(sandboxes, containers, asked.get("fail", ()))
            except (ValueError, DecodeError) as failure:
                error = str(failure)
        self._events += events
        allocated = {"allocs": counted.blocks, "alloc_bytes": counted.bytes_max} if counted else {}
        return _answer(cost, events, error) | allocated

    async def _relist(self, relister: Relister, *, with_stall: bool) -> dict[str, object]:
        round_ = Round()
        watch = StallWatch()
        if with_stall:
            trio.lowlevel.add_instrument(watch)
        with measured() as cost:
            try:
                await relister.relist(round_)
            except RuntimeCallError as failure:
                round_.error = str(failure)
        answer = _answer(cost, round_.events, round_.error) | round_.answer(cost.started_ns)
        if with_stall:
            trio.lowlevel.remove_instrument(watch)
            answer |= {"stall_ns": watch.longest_ns, "stall_cpu_ns": watch.longest_cpu_ns}
        self._events += round_.events
        return answer


def _answer(cost: Cost, events: Sequence[Event], error: str | None) -> dict[str, object]:
    return {"wall_ns": cost.wall_ns, "cpu_ns": cost.cpu_ns, "events": len(events), "error": error}
