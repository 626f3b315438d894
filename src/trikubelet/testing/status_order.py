"""The order in which an agent may write a pod's statuses to an API server: in the order they were computed, and some
fields only grow.

    within one agent   each part of a status (its phase, each condition, its containers, its addresses), and all of it
                       together, is written in the order of computing
    across agents      restart counts, the pod's generation, and the transition time of a condition do not go
                       back, nor does a name go from a container that still exists to one that was created before it;
                       for pods with one instance, because under a manifest's UID there may be several

Parts that another writer set, and a terminal phase that is held back while a container runs, were computed by no agent,
so they are in no order. A terminal phase that is held back leaves the phase as the server has it; for a recreated
mirror pod that is its first, and so its phase starts over with it.

Used by ``cluster_witness``, to which it returns violations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.pod_status.conditions import OWNED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trikubelet.model import k8s
    from trikubelet.testing.world import World


PHASE: Final = "the phase"


class StatusOrder:
    """Owns the statuses that the running agent computed of each pod, how far they were written, and how far any agent's
    writes went."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._computed: dict[str, list[Mapping[str, object]]] = {}
        self._written: dict[tuple[str, str], int] = {}
        self._grown: dict[str, dict[str, float | str]] = {}
        self._shown: dict[tuple[str, str], str] = {}
        self._objects: dict[str, str] = {}

    def begin(self) -> None:
        """Start the record of another agent."""
        self._computed.clear()
        self._written.clear()

    def computed(self, uid: str, status: k8s.PodStatus, version: int) -> None:
        """The agent has computed a status; the first version begins an instance of the pod."""
        if version == 1:
            self._computed[uid] = []
            self._written = {key: place for key, place in self._written.items() if key[0] != uid}
        self._computed[uid].append(dict(_parts(status)))

    def written(self, uid: str, object_uid: str, status: k8s.PodStatus, *, lives_once: bool) -> Iterator[str]:
        """Yield the violations in a status that the agent has written to an object. ``uid``: its pod's, which differs
        from a mirror pod's."""
        if self._objects.get(uid, object_uid) != object_uid:
            self._written.pop((uid, PHASE), None)
        self._objects[uid] = object_uid
        yield from self._out_of_order(uid, status)
        if lives_once:
            yield from self._gone_back(uid, status)

    def _out_of_order(self, uid: str, status: k8s.PodStatus) -> Iterator[str]:
        computed = self._computed.get(uid, [])
        for name, part in _parts(status):
            last = self._written.get((uid, name), 0)
            found = [place for place, one in enumerate(computed) if one.get(name) == part]
            if found and found[-1] < last:
                yield f"{name} of the {found[-1] + 1}. computed is written after the {last + 1}."
            self._written[uid, name] = next((place for place in found if place >= last), last)

    def _gone_back(self, uid: str, status: k8s.PodStatus) -> Iterator[str]:
        grown = self._grown.setdefault(uid, {})
        for what, now in _growing(status):
            before = grown.get(what, now)
            if now < before:  # type: ignore[operator]  # of one thing they are of one type
                yield f"{what} goes back from {before} to {now}"
            grown[what] = now
        for shown in (*status.init_container_statuses, *status.container_statuses):
            id_ = shown.container_id.partition("://")[2]
            before_id = self._shown.get((uid, shown.name), "")
            newer = self._world.containers.get(before_id)
            if id_ and newer is not None and id_ < before_id:  # ids are counted up
                yield f"container {shown.name} goes back from {before_id} to {id_}, which is older"
            self._shown[uid, shown.name] = id_ or before_id


def _parts(status: k8s.PodStatus) -> Iterator[tuple[str, object]]:
    """The agent's own parts of a status, each, and as a whole."""
    parts: list[tuple[str, object]] = [
        (PHASE, (status.phase, status.reason, status.message)),
        ("init containers", status.init_container_statuses),
        ("containers", status.container_statuses),
        ("ephemeral containers", status.ephemeral_container_statuses),
        ("addresses", (status.pod_ips, status.host_ips)),
        ("the generation", status.observed_generation),
        *((f"condition {one.type}", one) for one in status.conditions if one.type in OWNED),
    ]
    yield from parts
    yield "all", tuple(sorted(parts, key=lambda part: part[0]))


def _growing(status: k8s.PodStatus) -> Iterator[tuple[str, float | str]]:
    """The values that must not decrease, by name."""
    for shown in (*status.init_container_statuses, *status.container_statuses):
        yield f"the restart count of {shown.name}", shown.restart_count
    for one in status.conditions:
        if one.type in OWNED:
            yield f"the time of condition {one.type}", one.last_transition_time
    yield "the generation", status.observed_generation or 0
