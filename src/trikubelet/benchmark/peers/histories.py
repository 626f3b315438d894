"""Random histories of a node, as one relist after the other sees it: the same history for the same seed.

    generate(seed) ─► Step, Step, …        what the runtime has, and whose inspection fails
    Step.lists(chance) ─► the undecoded replies that say so, in an order of their own each time

Pods come, start containers, lose them, get new sandboxes, come back under their old UID. Things vanish from any state,
change unobserved, and sometimes a list cannot be read. They are the same kind of node for upstream and for us, and both
must report the same events; so states that no runtime produces (two items of one id, a state that does not exist, a
container without labels) are left to the tests of the decoder.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from google.protobuf.wrappers_pb2 import BytesValue

from trikubelet.core import names
from trikubelet.cri.v1 import api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

STEPS: Final = 12
PODS: Final = 5
CHANGES_MAX: Final = 6
"""Between two lists; sometimes there are none."""
FAILING: Final = 0.15
"""The share of inspections that fail, each time."""
UNREADABLE: Final = 0.05
"""The share of lists that cannot be read."""


class Item(NamedTuple):
    """A sandbox or container; ``state`` is the CRI's number for it, ``created`` the order in which they were made."""

    id: str
    pod: str
    state: int
    created: int


class Step(NamedTuple):
    """The runtime's content when it is listed; the inspections of the pods in ``fail`` fail. The reply of a list that
    is not ``readable`` breaks off."""

    sandboxes: list[Item]
    containers: list[Item]
    fail: list[str]
    readable: bool = True

    def lists(self, chance: Random) -> tuple[bytes, bytes]:
        """The undecoded replies to ``ListPodSandbox`` and ``ListContainers``, items and maps in random order."""
        owners = {item.pod: item.id for item in sorted(self.sandboxes, key=lambda item: item.created)}
        sandboxes = _reply((_sandbox(item) for item in self.sandboxes), chance)
        containers = _reply((_container(item, owners.get(item.pod, "gone")) for item in self.containers), chance)
        return sandboxes, containers if self.readable else containers + _BROKEN_OFF


_BROKEN_OFF: Final = b"\x0a\x7f\x0a"
"""The beginning of an item of 127 bytes."""


def generate(seed: int) -> Iterator[Step]:
    """A history of STEPS steps, and one more in which everything is gone."""
    node = _Node(Random(seed))
    for _ in range(STEPS):
        yield node.step()
    yield Step([], [], [])


class _Node:
    """Owns what exists; draws what happens next."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._made = 0
        self._sandboxes: dict[str, Item] = {}
        self._containers: dict[str, Item] = {}

    def step(self) -> Step:
        happens = [self._new_pod, self._new_sandbox, self._new_container, self._change, self._change, self._remove]
        for _ in range(self._chance.randint(0, CHANGES_MAX)):
            self._chance.choice(happens)()
        if self._chance.random() < 0.05:
            self._remove_pod()
        fail = [pod for pod in _PODS if self._chance.random() < FAILING]
        readable = self._chance.random() >= UNREADABLE
        return Step(list(self._sandboxes.values()), list(self._containers.values()), fail, readable)

    def _new_pod(self) -> None:
        """A pod as it is after a quick start: a sandbox and up to two containers, further or less far."""
        pod = self._chance.choice(_PODS)
        self._add(self._sandboxes, "s", pod, pb.SANDBOX_READY)
        for _ in range(self._chance.randint(0, 2)):
            self._add(self._containers, "c", pod, self._chance.choice(_STATES))

    def _new_sandbox(self) -> None:
        self._add(self._sandboxes, "s", self._chance.choice(_PODS), self._chance.choice(_SANDBOX_STATES))

    def _new_container(self) -> None:
        self._add(self._containers, "c", self._chance.choice(_PODS), self._chance.choice(_STATES))

    def _change(self) -> None:
        held, states = self._chance.choice(((self._sandboxes, _SANDBOX_STATES), (self._containers, _STATES)))
        if held:
            item = held[self._chance.choice(list(held))]
            held[item.id] = item._replace(state=self._chance.choice(states))

    def _remove(self) -> None:
        held = self._chance.choice((self._sandboxes, self._containers))
        if held:
            del held[self._chance.choice(list(held))]

    def _remove_pod(self) -> None:
        pod = self._chance.choice(_PODS)
        for held in (self._sandboxes, self._containers):
            for item in [item for item in held.values() if item.pod == pod]:
                del held[item.id]

    def _add(self, held: dict[str, Item], kind: str, pod: str, state: int) -> None:
        self._made += 1
        item = Item(f"{kind}{self._made}", pod, state, self._made)
        held[item.id] = item


_NAMESPACE: Final = "ns"
_PODS: Final = [f"p{number}" for number in range(PODS)]
_SANDBOX_STATES: Final = (pb.SANDBOX_READY, pb.SANDBOX_NOTREADY)
_STATES: Final = (
    pb.CONTAINER_CREATED,
    pb.CONTAINER_RUNNING,
    pb.CONTAINER_RUNNING,
    pb.CONTAINER_EXITED,
    pb.CONTAINER_UNKNOWN,
)


# ---- the wire; a message's bytes are those of its parts one after another, in any order ----


def _reply(items: Iterable[list[bytes]], chance: Random) -> bytes:
    elements = [b"".join(chance.sample(parts, len(parts))) for parts in items]
    chance.shuffle(elements)
    # A list reply holds its items in field 1, as this message does its bytes.
    return b"".join(BytesValue(value=element).SerializeToString() for element in elements)


def _sandbox(item: Item) -> list[bytes]:
    metadata = pb.PodSandboxMetadata(name=item.pod, uid=item.pod, namespace=_NAMESPACE, attempt=item.created)
    bare = pb.PodSandbox(
        id=item.id, metadata=metadata, state=pb.PodSandboxState.Name(item.state), created_at=item.created
    )
    labels = {names.POD_UID: item.pod, names.POD_NAME: item.pod, names.POD_NAMESPACE: _NAMESPACE}
    return [
        bare.SerializeToString(),
        *(pb.PodSandbox(labels=dict([pair])).SerializeToString() for pair in labels.items()),
    ]


def _container(item: Item, sandbox_id: str) -> list[bytes]:
    bare = pb.Container(
        id=item.id,
        pod_sandbox_id=sandbox_id,
        metadata=pb.ContainerMetadata(name="c", attempt=item.created),
        image=pb.ImageSpec(image="image"),  # upstream leaves out a container without one
        state=pb.ContainerState.Name(item.state),
        created_at=item.created,
    )
    labels = {
        names.POD_UID: item.pod,
        names.POD_NAME: item.pod,
        names.POD_NAMESPACE: _NAMESPACE,
        names.CONTAINER_NAME: "c",
    }
    return [
        bare.SerializeToString(),
        *(pb.Container(labels=dict([pair])).SerializeToString() for pair in labels.items()),
    ]
