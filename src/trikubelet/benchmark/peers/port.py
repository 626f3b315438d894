"""A straightforward port of upstream's PLEG to Python: decode everything, make an object of each container, compare
the objects of each pod, inspect changed pods one after another. It shows what the language costs where nothing is done
about it.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from trikubelet.benchmark.peers.asking import Asking
from trikubelet.benchmark.peers.protocol import Event, main
from trikubelet.core import names
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.model.runtime_errors import RuntimeCallError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Sequence

    from trikubelet.benchmark.peers.asking import Statuses
    from trikubelet.benchmark.peers.protocol import Round
    from trikubelet.cri.channel import Channel


class State(Enum):
    """How PLEG sees a container or sandbox."""

    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"
    ABSENT = "non-existent"


_CONTAINER_STATES: Final = {pb.CONTAINER_RUNNING: State.RUNNING, pb.CONTAINER_EXITED: State.EXITED}


@dataclass(slots=True)
class Container:
    """A container, or a sandbox as one."""

    id: str
    state: State
    sandbox_id: str
    created_at: int
    name: str = ""
    image: str = ""
    image_id: str = ""
    image_ref: str = ""
    image_handler: str = ""
    hash: str = ""


@dataclass(slots=True)
class Pod:
    """The runtime's items of a pod, newest first."""

    uid: str
    name: str
    namespace: str
    containers: list[Container] = field(default_factory=list)
    sandboxes: list[Container] = field(default_factory=list)

    def state_of(self, id_: str) -> State:
        """The state of a container or sandbox."""
        for item in (*self.containers, *self.sandboxes):
            if item.id == id_:
                return item.state
        return State.ABSENT


@dataclass(slots=True)
class Record:
    """A pod as it was when it was last inspected, and as it is listed now."""

    old: Pod | None = None
    current: Pod | None = None


def read_pods(sandboxes: Sequence[bytes], containers: Sequence[bytes]) -> dict[str, Pod]:
    """The pods of two lists, by UID. Raises protobuf's DecodeError."""
    listed_sandboxes = [s for chunk in sandboxes for s in pb.ListPodSandboxResponse.FromString(chunk).items]
    listed = [c for chunk in containers for c in pb.ListContainersResponse.FromString(chunk).containers]
    pods: dict[str, Pod] = {}
    for sandbox in sorted(listed_sandboxes, key=lambda s: (-s.created_at, s.id)):
        meta = sandbox.metadata
        pod = pods.setdefault(meta.uid, Pod(meta.uid, meta.name, meta.namespace))
        state = State.RUNNING if sandbox.state == pb.SANDBOX_READY else State.EXITED
        pod.sandboxes.append(Container(sandbox.id, state, sandbox.id, sandbox.created_at))
    for container in sorted(listed, key=lambda c: (-c.created_at, c.id)):
        labels = container.labels
        uid = labels.get(names.POD_UID, "")
        pod = pods.setdefault(uid, Pod(uid, labels.get(names.POD_NAME, ""), labels.get(names.POD_NAMESPACE, "")))
        pod.containers.append(
            Container(
                id=container.id,
                state=_CONTAINER_STATES.get(container.state, State.UNKNOWN),
                sandbox_id=container.pod_sandbox_id,
                created_at=container.created_at,
                name=container.metadata.name,
                image=container.image.image,
                image_id=container.image_id or container.image_ref,
                image_ref=container.image_ref,
                image_handler=container.image.runtime_handler,
                hash=container.annotations.get(names.CONTAINER_HASH, ""),
            )
        )
    return pods


def compare(uid: str, old: Pod | None, new: Pod | None) -> list[Event]:
    """Return the events of a pod, ContainerChanged included."""
    ids = dict.fromkeys(item.id for pod in (old, new) if pod for item in (*pod.containers, *pod.sandboxes))
    events: list[Event] = []
    for id_ in ids:
        before, now = (pod.state_of(id_) if pod else State.ABSENT for pod in (old, new))
        events += [Event(uid, kind, id_) for kind in _kinds(before, now)]
    return events


def _kinds(before: State, now: State) -> tuple[str, ...]:
    if before is now:
        return ()
    match now:
        case State.RUNNING:
            return ("ContainerStarted",)
        case State.EXITED:
            return ("ContainerDied",)
        case State.UNKNOWN:
            return ("ContainerChanged",)
        case State.ABSENT:
            return ("ContainerRemoved",) if before is State.EXITED else ("ContainerDied", "ContainerRemoved")


class PortedPleg:
    """Owns the records of all pods, and which of them are to be inspected again."""

    def __init__(self, asking: Asking | None = None) -> None:
        self._asking = asking
        self._records: dict[str, Record] = {}
        self._reinspect: set[str] = set()
        self.cache: dict[str, Statuses] = {}

    def observe(self, sandboxes: Sequence[bytes], containers: Sequence[bytes], fail: Collection[str]) -> list[Event]:
        """See ``protocol.Observer``."""
        self._set_current(read_pods(sandboxes, containers))
        happened: list[Event] = []
        for uid in list(self._records):
            if (events := self._events(uid)) is None:
                continue
            if uid in fail and self._records[uid].current is not None:
                self._reinspect.add(uid)
            else:
                happened += self._update(uid, events)
        return happened

    async def relist(self, round_: Round) -> None:
        """See ``protocol.Relister``."""
        assert self._asking is not None
        self._set_current(read_pods(*await self._asking.lists()))
        round_.listed()
        for uid in list(self._records):
            if (events := self._events(uid)) is None:
                continue
            if (pod := self._records[uid].current) is None:
                self.cache.pop(uid, None)
            else:
                round_.inspected += 1
                try:
                    self.cache[uid] = await self._asking.inspect(
                        [sandbox.id for sandbox in pod.sandboxes], [container.id for container in pod.containers]
                    )
                except RuntimeCallError:
                    self._reinspect.add(uid)
                    continue
                finally:
                    round_.published()
            round_.events += self._update(uid, events)

    def _set_current(self, pods: dict[str, Pod]) -> None:
        for record in self._records.values():
            record.current = None
        for uid, pod in pods.items():
            self._records.setdefault(uid, Record()).current = pod

    def _events(self, uid: str) -> list[Event] | None:
        """Return the events of a pod; None when it need not be inspected."""
        record = self._records[uid]
        events = compare(uid, record.old, record.current)
        if not events and uid not in self._reinspect:
            return None
        self._reinspect.discard(uid)
        return events

    def _update(self, uid: str, events: list[Event]) -> list[Event]:
        """The pod was inspected; its events."""
        record = self._records[uid]
        record.old = record.current
        if record.current is None:
            del self._records[uid]
        if not events:
            return [Event(uid, "PodSync")]
        return [event for event in events if event.type != "ContainerChanged"]


@asynccontextmanager
async def open_port(channel: Channel, streaming: bool) -> AsyncGenerator[PortedPleg, None]:
    """The port over a channel."""
    yield PortedPleg(Asking(channel, streaming))


if __name__ == "__main__":
    main(PortedPleg, open_port)
