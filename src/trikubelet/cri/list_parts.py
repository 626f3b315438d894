"""The two lists of the CRI, and the requests for a part of one.

Requests are made from a ``Part``. Replies stay undecoded: ``core.parts`` reads only the bytes that are needed to split
and join them. A chunk takes milliseconds, so other tasks run between two chunks.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import trio

from trikubelet.core import parts
from trikubelet.core.names import POD_NAMESPACE, POD_UID
from trikubelet.core.relist import DecodeError
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.model.frozen import Frozen
from trikubelet.model.runtime_errors import RuntimeFailure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


class ListKind(Frozen):
    """The differences between the two lists. ``states`` by number, in the order of a container's life."""

    noun: str
    request: Any
    stream_request: Any
    filter: Any
    state: Any
    states: Mapping[int, str]


SANDBOXES: Final = ListKind(
    noun="sandboxes",
    request=pb.ListPodSandboxRequest,
    stream_request=pb.StreamPodSandboxesRequest,
    filter=pb.PodSandboxFilter,
    state=pb.PodSandboxStateValue,
    states={pb.SANDBOX_READY: "ready", pb.SANDBOX_NOTREADY: "not ready"},
)
CONTAINERS: Final = ListKind(
    noun="containers",
    request=pb.ListContainersRequest,
    stream_request=pb.StreamContainersRequest,
    filter=pb.ContainerFilter,
    state=pb.ContainerStateValue,
    states={  # "unknown" comes before "exited": a runtime that lost track of a container later finds that it exited
        pb.CONTAINER_CREATED: "created",
        pb.CONTAINER_RUNNING: "running",
        pb.CONTAINER_UNKNOWN: "unknown",
        pb.CONTAINER_EXITED: "exited",
    },
)

Pods = dict[str, frozenset[str]]
"""The UIDs of pods, by namespace."""


@dataclass(frozen=True, slots=True)
class Part:
    """A selection of items: all, narrowed by each field that is set. ``pods``: the pods to split by, once known."""

    state: int | None = None
    namespace: str | None = None
    uid: str | None = None
    pods: Pods = field(default_factory=dict, compare=False)

    def filter(self, kind: ListKind) -> Any:
        """Return the CRI's filter; None for all items."""
        wanted = {POD_NAMESPACE: self.namespace, POD_UID: self.uid}
        labels = {name: value for name, value in wanted.items() if value is not None}
        if self.state is not None:
            return kind.filter(state=kind.state(state=self.state), label_selector=labels)
        return kind.filter(label_selector=labels) if labels else None

    def is_narrower(self, other: Part) -> bool:
        """True if this is a proper part of ``other``."""
        pairs = ((self.state, other.state), (self.namespace, other.namespace), (self.uid, other.uid))
        return self != other and all(theirs in (None, mine) for mine, theirs in pairs)

    def is_dead(self, kind: ListKind) -> bool:
        """True if the items in it have ended."""
        return self.state == list(kind.states)[-1]

    def words(self, kind: ListKind) -> str:
        """Describe the part for operators: ``exited containers of namespace default``."""
        state = "" if self.state is None else f"{kind.states[self.state]} "
        of = f" of pod {self.uid}" if self.uid else f" of namespace {self.namespace}" if self.namespace else ""
        return f"{state}{kind.noun}{of}"


async def pods_of(chunks: Iterable[bytes]) -> Pods:
    """Return the pods that have a sandbox in the list. Raises RuntimeFailure for an invalid reply."""
    found: dict[str, set[str]] = {}
    for chunk in chunks:
        with _readable(SANDBOXES):
            pods = parts.pods_of(chunk)
        for namespace, uids in pods.items():
            found.setdefault(namespace, set()).update(uids)
        await trio.lowlevel.checkpoint()
    return {namespace: frozenset(uids) for namespace, uids in found.items()}


async def joined(kind: ListKind, lists: Sequence[Sequence[bytes]]) -> list[bytes]:
    """Join the chunks of several parts into one list, see ``core.parts``. Raises RuntimeFailure for an invalid
    reply."""
    last_first = []
    with _readable(kind):
        for chunk in parts.joined(lists, is_sandbox=kind is SANDBOXES):
            last_first.append(chunk)
            await trio.lowlevel.checkpoint()
    return last_first[::-1]


@contextmanager
def _readable(kind: ListKind) -> Iterator[None]:
    try:
        yield
    except DecodeError as error:
        raise RuntimeFailure(f"a list of {kind.noun} cannot be read: {error}", "INTERNAL") from error
