"""The lists of sandboxes and containers, whatever their length: undecoded, in as many chunks as it takes.

    one message ──too large──► stream ──unimplemented──► per state ──too large──► per namespace ──too large──► per pod
         ▲                       │                           │
         ├───────────────────────┴── an eighth shorter than when it did not fit
         └── ten seconds after a part was refused that cannot be narrowed

One message comes first: nothing is cheaper, and below the message limit nothing else is needed. Streams are in CRI
since 1.36; a runtime without them (every containerd so far) is asked for parts, by what its filters can do: one state,
and labels that match exactly. A part is treated like the whole, so that only what does not fit is split further. The
knowledge of a runtime is dropped with the connection: the next one may be to another.

Parts are not one moment. That no container is lost between them is argued in docs/decisions/0005-lists-in-parts.md.
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import trio

from trikubelet.cri.exchange import MESSAGE_EXTRA_BYTES
from trikubelet.cri.list_parts import CONTAINERS, SANDBOXES, ListKind, Part, joined, pods_of
from trikubelet.cri.v1.api_grpc import RuntimeServiceStub
from trikubelet.model.runtime_errors import MessageTooLarge, NotImplementedByRuntime, RuntimeCallError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

    from trikubelet.cri.channel import Channel
    from trikubelet.cri.list_parts import Pods
    from trikubelet.cri.methods import UnaryStreamMethod, UnaryUnaryMethod

log = logging.getLogger(__name__)

LIST_BYTES_MAX: Final = 256 * 2**20
"""Bytes of one list, all chunks together: a quarter of a million containers."""
PARTS_MAX: Final = 20_000
"""Namespaces, or pods of one namespace. A runtime walks all it has for every part: more would never end in time."""
PARTS_AT_ONCE_MAX: Final = 4
"""Enough to hide the way there and back; more would keep the runtime from starting and stopping containers."""
REFUSED_SECONDS: Final = 10.0
"""How long a list stands as refused of which a part does not fit that cannot be narrowed. A runtime builds all of a
message before it refuses it, so it is not asked with every relist."""


class RuntimeLists:
    """Both lists of one runtime."""

    def __init__(self, channel: Channel) -> None:
        stub = RuntimeServiceStub(channel)
        self._sandboxes = _List(channel, SANDBOXES, stub.ListPodSandbox, stub.StreamPodSandboxes, self._pods)
        self._containers = _List(channel, CONTAINERS, stub.ListContainers, stub.StreamContainers, self._pods)

    async def sandboxes(self, pod_uid: str | None = None) -> Sequence[bytes]:
        """Every sandbox, or those of one pod. Raises MessageTooLarge when not even those of one state fit, and the
        other errors of ``model.runtime_errors``."""
        return await self._sandboxes.get(pod_uid)

    async def containers(self, pod_uid: str | None = None) -> Sequence[bytes]:
        """Every container, or those of one pod. Raises MessageTooLarge when not even those of one pod and state fit,
        and the other errors of ``model.runtime_errors``.

        Where it must be split by pod, it has the containers of pods that have a sandbox. All have: a runtime that
        removes a sandbox removes the containers in it."""
        return await self._containers.get(pod_uid)

    @property
    def warning(self) -> str:
        """Which lists are asked for in parts, for an operator; empty when none is."""
        split = " and ".join(filter(None, (self._sandboxes.split, self._containers.split)))
        return split and f"{split}: not all fit in one message, and this container runtime has no streamed lists"

    async def _pods(self) -> Pods:
        return await pods_of(await self._sandboxes.get(None))


class _List:
    """Owns what the present connection has taught of one list: which parts of it have outgrown one message, and at what
    length, whether it can be streamed, and until when it is not asked for since a part can be had in no way."""

    def __init__(
        self,
        channel: Channel,
        kind: ListKind,
        unary: UnaryUnaryMethod[Any, Any],
        stream: UnaryStreamMethod[Any, Any],
        find_pods: Callable[[], Awaitable[Pods]],
    ) -> None:
        self._channel = channel
        self._kind = kind
        self._unary = unary
        self._stream = stream
        self._find_pods = find_pods
        self._reconnects = 0
        self._streams = True
        self._outgrown: dict[Part, int] = {}  # bytes when it last did not fit, 0 while that is unknown
        self._refused: Part | None = None  # the part that no request could get when all were last asked for
        self._refused_until = -math.inf

    async def get(self, pod_uid: str | None) -> list[bytes]:
        """The list, or that of one pod."""
        reconnects = self._channel.statistics().reconnects
        if reconnects != self._reconnects:
            self._reconnects, self._streams = reconnects, True
            self._outgrown.clear()
            self._refused = None
        if pod_uid is not None:
            return await self._get(Part(uid=pod_uid))
        if self._refused is not None and trio.current_time() < self._refused_until:
            raise self._no_way(self._refused)
        chunks = await self._get(Part())
        self._refused = None
        return chunks

    @property
    def split(self) -> str:
        """Return how the list is split into requests, for an operator; empty while it is not split."""
        if self._refused is not None:
            return f"{self._refused.words(self._kind)} cannot be listed even by themselves"
        if self._streams or Part() not in self._outgrown:
            return ""
        deepest = max(self._outgrown, key=lambda part: (part.state is not None, part.namespace is not None))
        how = "state" if deepest.state is None else "namespace" if deepest.namespace is None else "pod"
        return f"{self._kind.noun} are listed by {how}"

    async def _get(self, part: Part) -> list[bytes]:
        if part not in self._outgrown:
            try:
                return [await self._unary.raw(self._kind.request(filter=part.filter(self._kind)))]
            except MessageTooLarge as error:
                log.debug("Too many %s for one message: %s", part.words(self._kind), error)
        if part.uid is None:  # of single pods nothing is remembered: they come and go
            self._outgrown.setdefault(replace(part, pods={}), 0)
        chunks = await self._get_in_chunks(part)
        self._note_length(part, sum(map(len, chunks)))
        return chunks

    def _note_length(self, part: Part, length: int) -> None:
        """Let one message be tried again once the list has shrunk. Not at once: it would be refused for every
        container that goes."""
        outgrown_at = self._outgrown.get(part)
        if outgrown_at == 0:
            self._outgrown[part] = length
        elif outgrown_at is not None and length < outgrown_at * 7 // 8:
            del self._outgrown[part]
            self._forget_below(part)

    def _forget_below(self, part: Part, but: Collection[Part] = ()) -> None:
        """Narrower parts are not asked for any more, but for those: nothing would ever note that they have shrunk."""
        for other in [other for other in self._outgrown if other.is_narrower(part) and other not in but]:
            del self._outgrown[other]

    async def _get_in_chunks(self, part: Part) -> list[bytes]:
        if self._streams:
            try:
                return await self._get_streamed(part)
            except NotImplementedByRuntime as error:
                log.debug("%s", error)
                self._streams = False
        if part.state is None:
            return await self._get_by_state(part)
        if part.uid is None and self._kind is CONTAINERS:
            return await self._get_side_by_side(await self._narrower(part))
        if part.uid is None:  # nothing would show that it has shrunk: all is asked for again after a while
            self._outgrown.clear()
            self._refused, self._refused_until = part, trio.current_time() + REFUSED_SECONDS
        raise self._no_way(part)

    def _no_way(self, part: Part) -> MessageTooLarge:
        remedy = "remove dead ones by hand" if part.is_dead(self._kind) else "move pods to other nodes"
        return MessageTooLarge(
            f"the {part.words(self._kind)} do not fit in one message, and this runtime has no streamed lists: "
            f"{remedy}, or let longer messages pass: --runtime-message-mib of the agent, and the runtime's own limit "
            "(of containerd: grpc.max_send_message_size)"
        )

    async def _get_streamed(self, part: Part) -> list[bytes]:
        found = _Chunks(self._kind)
        async with self._stream.raw(self._kind.stream_request(filter=part.filter(self._kind))) as replies:
            async for reply in replies:
                found.add([reply])
        return found.chunks

    async def _get_by_state(self, part: Part) -> list[bytes]:
        """One state after another, in the order in which lives go on."""
        everything, states = _Chunks(self._kind), []
        for state in self._kind.states:
            states.append(await self._get(replace(part, state=state)))
            everything.add(states[-1])
        return await joined(self._kind, states)

    async def _narrower(self, part: Part) -> list[Part]:
        if part.namespace is not None:
            return [replace(part, uid=uid) for uid in sorted(part.pods[part.namespace])]
        pods = await self._find_pods()
        parts = [replace(part, namespace=namespace, pods=pods) for namespace in sorted(pods)]
        self._forget_below(part, but=parts)  # namespaces come and go
        return parts

    async def _get_side_by_side(self, parts: Sequence[Part]) -> list[bytes]:
        if len(parts) > PARTS_MAX:
            raise MessageTooLarge(f"listing {self._kind.noun} would take {len(parts)} parts; {PARTS_MAX} is the limit")
        found = _Chunks(self._kind)
        failures: list[RuntimeCallError] = []
        left = iter(parts)

        async def work(scope: trio.CancelScope) -> None:
            try:
                for part in left:
                    found.add(await self._get(part))
            except RuntimeCallError as error:
                failures.append(error)
                scope.cancel()

        async with trio.open_nursery() as nursery:
            for _ in range(PARTS_AT_ONCE_MAX):
                nursery.start_soon(work, nursery.cancel_scope)
        if failures:
            raise failures[0]
        return found.chunks


class _Chunks:
    """Holds the chunks of a list that is coming in, and its bound."""

    def __init__(self, kind: ListKind) -> None:
        self.chunks: list[bytes] = []
        self._kind = kind
        self._bytes = 0

    def add(self, chunks: Iterable[bytes]) -> None:
        """Keep these as well. Raises MessageTooLarge beyond LIST_BYTES_MAX."""
        for chunk in chunks:
            self._bytes += len(chunk) + MESSAGE_EXTRA_BYTES
            if self._bytes > LIST_BYTES_MAX:
                raise MessageTooLarge(f"the list of {self._kind.noun} is longer than {LIST_BYTES_MAX} bytes")
            self.chunks.append(chunk)
