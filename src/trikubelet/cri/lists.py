"""The lists of sandboxes and containers of any length: undecoded, in as many chunks as necessary.

    one message ──too large──► stream ──unimplemented──► per state ──too large──► per namespace ──too large──► per pod
         ▲                       │                           │
         ├───────────────────────┴── an eighth shorter than when it did not fit
         └── ten seconds after a part was rejected that cannot be narrowed

A single message is tried first: it is the cheapest, and below the message limit nothing else is needed. CRI has streams
since 1.36. A runtime without them (every containerd so far) is asked for parts, selected by its filters: one state, and
labels that match exactly. Each part is treated like the whole list, so that only a part that does not fit is split
further. This knowledge is dropped with the connection, because the next one may be to another runtime.

Parts are not taken at the same time. docs/decisions/0005-lists-in-parts.md shows why no container is lost between them.
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
"""Bytes of one list, all chunks together: about 250,000 containers."""
PARTS_MAX: Final = 20_000
"""Namespaces, or pods of one namespace. A runtime scans all its items for each part: more parts would time out."""
PARTS_AT_ONCE_MAX: Final = 4
"""Concurrent requests: enough to hide the latency; more would delay the runtime's starts and stops of containers."""
REFUSED_SECONDS: Final = 10.0
"""How long a list is not requested after a part did not fit that cannot be narrowed. A runtime builds the whole message
before it rejects it, so not every relist may ask."""


class RuntimeLists:
    """The two lists of one runtime."""

    def __init__(self, channel: Channel) -> None:
        stub = RuntimeServiceStub(channel)
        self._sandboxes = _List(channel, SANDBOXES, stub.ListPodSandbox, stub.StreamPodSandboxes, self._pods)
        self._containers = _List(channel, CONTAINERS, stub.ListContainers, stub.StreamContainers, self._pods)

    async def sandboxes(self, pod_uid: str | None = None) -> Sequence[bytes]:
        """Return all sandboxes, or those of one pod. Raises MessageTooLarge if not even those of one state fit, and the
        other errors of ``model.runtime_errors``."""
        return await self._sandboxes.get(pod_uid)

    async def containers(self, pod_uid: str | None = None) -> Sequence[bytes]:
        """Return all containers, or those of one pod. Raises MessageTooLarge if not even those of one pod and state
        fit, and the other errors of ``model.runtime_errors``.

        A list that is split by pod has the containers of pods with a sandbox. These are all containers, because a
        runtime that removes a sandbox removes the containers in it."""
        return await self._containers.get(pod_uid)

    @property
    def warning(self) -> str:
        """A warning for operators that names the lists requested in parts; "" if there are none."""
        split = " and ".join(filter(None, (self._sandboxes.split, self._containers.split)))
        return split and f"{split}: not all fit in one message, and this container runtime has no streamed lists"

    async def _pods(self) -> Pods:
        return await pods_of(await self._sandboxes.get(None))


class _List:
    """Owns the knowledge about one list on this connection: the parts that outgrew one message and their lengths, the
    support for streams, and the time until which the list is not requested because a part cannot be transferred."""

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
        self._outgrown: dict[Part, int] = {}  # the length when it last did not fit, 0 if unknown
        self._refused: Part | None = None  # the part that no request could get in the last full list
        self._refused_until = -math.inf

    async def get(self, pod_uid: str | None) -> list[bytes]:
        """Return the list, or that of one pod."""
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
        """Describe for operators how the list is split into requests; "" while it is not split."""
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
        if part.uid is None:  # nothing is remembered about single pods, because they come and go
            self._outgrown.setdefault(replace(part, pods={}), 0)
        chunks = await self._get_in_chunks(part)
        self._note_length(part, sum(map(len, chunks)))
        return chunks

    def _note_length(self, part: Part, length: int) -> None:
        """Try a single message again once the list has shrunk by an eighth. Not earlier, because otherwise each removed
        container would cause a rejected message."""
        outgrown_at = self._outgrown.get(part)
        if outgrown_at == 0:
            self._outgrown[part] = length
        elif outgrown_at is not None and length < outgrown_at * 7 // 8:
            del self._outgrown[part]
            self._forget_below(part)

    def _forget_below(self, part: Part, but: Collection[Part] = ()) -> None:
        """Forget the narrower parts except ``but``: they are no longer requested, so their shrinking would go
        unnoticed."""
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
        if part.uid is None:  # nothing would report that it has shrunk, so all is requested again later
            self._outgrown.clear()
            self._refused, self._refused_until = part, trio.current_time() + REFUSED_SECONDS
        raise self._no_way(part)

    def _no_way(self, part: Part) -> MessageTooLarge:
        remedy = "remove dead ones by hand" if part.is_dead(self._kind) else "move pods to other nodes"
        return MessageTooLarge(
            f"the {part.words(self._kind)} do not fit in one message, and this runtime has no streamed lists: "
            f"{remedy}, or raise the message limits: --runtime-message-mib of the agent, and the runtime's own limit "
            "(of containerd: grpc.max_send_message_size)"
        )

    async def _get_streamed(self, part: Part) -> list[bytes]:
        found = _Chunks(self._kind)
        async with self._stream.raw(self._kind.stream_request(filter=part.filter(self._kind))) as replies:
            async for reply in replies:
                found.add([reply])
        return found.chunks

    async def _get_by_state(self, part: Part) -> list[bytes]:
        """Return the list of each state in turn, in the order of a container's life, so that none is missed while it
        changes its state."""
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
    """Owns the chunks of a list that is being received, and enforces the limit."""

    def __init__(self, kind: ListKind) -> None:
        self.chunks: list[bytes] = []
        self._kind = kind
        self._bytes = 0

    def add(self, chunks: Iterable[bytes]) -> None:
        """Add chunks. Raises MessageTooLarge beyond LIST_BYTES_MAX."""
        for chunk in chunks:
            self._bytes += len(chunk) + MESSAGE_EXTRA_BYTES
            if self._bytes > LIST_BYTES_MAX:
                raise MessageTooLarge(f"the list of {self._kind.noun} is longer than {LIST_BYTES_MAX} bytes")
            self.chunks.append(chunk)
