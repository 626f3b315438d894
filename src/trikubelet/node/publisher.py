"""The node's object in the cluster: registers it, reports its status, and registers it again if it was deleted.

    every 10 s, or woken ─► report ─► not registered: create it, or adopt an existing one
                                 │    (a node that has no address yet is not created)
                                 └──► registered: build the status; changed, or 5 minutes old ─► PATCH its status

A wake-up (for example when the runtime became ready) does not wait for the next tick, but for the pause after a
failure. The base of the next patch is the server's last answer or the informer's last object, whichever is newer;
conditions keep the transition times of an earlier agent, so they do not show a restart of the agent.

An etcd that was restored from a backup counts its versions from there. So an older version is accepted where it proves
that: in a list of the informer that is older than the last one, and in an answer, to a write or to a read of the newest
version, that is older than the version known when the request was sent. Otherwise the node's labels and taints, by
which pods are admitted, would be outdated until the versions have passed the old ones.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.node_status import build, differs, emptied, new_node, rebooted, reconciliation, status_patch
from trikubelet.core.node_status.conditions import READY, event_reasons, is_ready
from trikubelet.core.resource_version import is_older
from trikubelet.core.timestamps import rfc3339
from trikubelet.kit.answered_failure import AnsweredFailure
from trikubelet.kit.backoff import Backoff
from trikubelet.kit.slot import Slot
from trikubelet.model import k8s
from trikubelet.model.api import NODES, PatchKind
from trikubelet.model.api_errors import ApiError, ObjectMissing, retry_after_seconds
from trikubelet.model.decoding import read_item
from trikubelet.model.node_startup import NodeStartup
from trikubelet.ports.request_outcomes import RequestOutcomes

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable

    from trikubelet.core.node_status import Identity, NodeReport
    from trikubelet.kit.outage import Outage
    from trikubelet.model.api import Item
    from trikubelet.model.objects import ObjectRef
    from trikubelet.pods.node_object import NodeObject
    from trikubelet.ports import Api, Clock, Events

log = logging.getLogger(__name__)

DOING: Final = "publishing the node's status"
JITTER: Final = 0.04
REQUEST_SECONDS_MAX: Final = 10.0
FAILURES_BEFORE_RESET: Final = 5
"""As many as upstream's tries of one node status; then the connections are recreated, unless they bring answers."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often the status is computed, how old the published one may become, and if a missing node is registered."""

    compute_seconds: float = 10.0
    report_seconds: float = 300.0
    registers: bool = True


@dataclass(frozen=True, slots=True)
class _Published:
    """The last published status, and the server's answer to it."""

    said: k8s.NodeStatus
    answered: k8s.NodeStatus


class NodePublisher:
    """Owns the last published state of this node. The only writer of its received object."""

    def __init__(
        self,
        *,
        api: Api,
        identity: Identity,
        report: Callable[[], Awaitable[NodeReport]],
        pace: Pace,
        clock: Clock,
        events: Events,
        this_node: ObjectRef,
        node: NodeObject,
        outage: Outage,
        reset: Callable[[], None],
        chance: random.Random,
    ) -> None:
        """``this_node``: the subject of events; ``node``: the store of its object; ``reset`` closes the API's
        connections."""
        self._api = api
        self._identity = identity
        self._report = report
        self._pace = pace
        self._clock = clock
        self._events = events
        self._this_node = this_node
        self._outage = outage
        self._outcomes = RequestOutcomes(DOING, outage)
        self._reset = reset
        self._chance = chance
        self._node = node
        self._missing_said = False
        self._was_unschedulable = False
        self._published_at = float("-inf")
        self._published: _Published | None = None
        self._wakeups: Slot[None] = Slot()
        self.registered = trio.Event()
        self.startup: Final = NodeStartup()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the node published until cancelled."""
        task_status.started()
        self._events.record(self._this_node, "Normal", "Starting", "Starting kubelet.")
        backoff = Backoff(0.1, 7.0, jitter=JITTER, chance=self._chance)
        failures = 0
        while True:
            # outside the limit: a runtime that hangs does not mean that the server is away
            report = await self._report()
            try:
                with trio.fail_after(REQUEST_SECONDS_MAX):
                    was_asked = await self._publish(report)
            except (ApiError, trio.TooSlowError) as error:
                may_pass = self._outcomes.failed(error)
                if isinstance(error, AnsweredFailure):
                    failures = 0  # a connection that brings answers works, and the lease's would be closed with it
                elif may_pass:
                    failures += 1
                    if failures % FAILURES_BEFORE_RESET == 0:
                        self._reset()
                await trio.sleep(max(backoff.next_seconds(), retry_after_seconds(error)))
                continue  # a wake-up meanwhile must not shorten a pause that the server needs
            if was_asked:  # else the server's state is unknown
                failures = 0
                backoff.reset()
                self._outcomes.worked()
            with trio.move_on_after(self._pace.compute_seconds * (1 + JITTER * self._chance.random())):
                await self._wakeups.take()

    def wake(self) -> None:
        """Notice that something in the status has changed. Never blocks."""
        self._wakeups.put(None)

    def seen(self, node: k8s.Node | None, *, is_set_back: bool = False) -> None:
        """Take the informer's node; None if it does not exist. ``is_set_back``: it counts even if it is older than the
        known one."""
        self._node.watched = node
        looked_up = self._node.looked_up
        if looked_up and (node is None or is_set_back or not _is_older(node, looked_up)):
            self._node.looked_up = None
        if node is None:
            if self._node.received is not None:
                log.warning("Node %s was deleted from the cluster", self._identity.name)
                self._node.received = None
                self.wake()
        elif self._node.received is not None:
            self._know(node, is_set_back=is_set_back)

    def found(self, node: k8s.Node, before: k8s.Node | None) -> None:
        """Take the newest node as another component read it; ``before``: the node that was known when it was
        requested."""
        if self._node.received is not None:
            self._answered(node, before)
        elif self._is_to_count(node, before, self._node.looked_up or self._node.watched):
            self._node.looked_up = node  # until it is adopted, which a server that rejects requests may delay for long

    @property
    def node(self) -> k8s.Node | None:
        """The node as the cluster has it; None while it is not registered."""
        return self._node.received

    def uid(self) -> str:
        """The UID of the node object, "" while it is not registered."""
        return self._node.received.metadata.uid if self._node.received else ""

    async def _publish(self, report: NodeReport) -> bool:
        """Write the status if it changed; True if the server was called. Raises ApiError."""
        was_known = self._node.received is not None
        known = self._node.received or await self._take_up(report)
        if known is None:
            return True
        self._look_whether_schedulable(known)
        before = known.status or k8s.NodeStatus()
        after = build(report, before, rfc3339(self._clock.now_ns()))
        now = trio.current_time()
        # An informer that never saw this node cannot see its deletion either: until it has, the server is called each
        # time.
        is_watched = self._node.watched is not None and self._node.watched.metadata.uid == known.metadata.uid
        if is_watched and not self._is_changed(before, after) and now - self._published_at < self._pace.report_seconds:
            return not was_known
        try:
            item = await self._api.patch(
                NODES, known.metadata.name, status_patch(before, after), kind=PatchKind.STRATEGIC, subresource="status"
            )
        except ObjectMissing:
            self._node.received = None  # the next pass finds or creates it, which is soon but never at once
            raise
        answered = _decode(item)
        self._note_published(after, answered)
        self._answered(answered, known)
        self._note_ready(after)
        # Recorded after the status that shows it: an agent that ends before that records it after its next start.
        if (boot_id := rebooted(before, after)) is not None:
            message = f"Node {self._identity.name} has been rebooted, boot id: {boot_id}"
            self._events.record(self._this_node, "Warning", "Rebooted", message)
        self._say_turned(*event_reasons(before.conditions, after.conditions))
        return True

    def _say_turned(self, *reasons: str) -> None:
        for reason in reasons:
            message = f"Node {self._identity.name} status is now: {reason}"
            self._events.record(self._this_node, "Normal", reason, message)

    def _look_whether_schedulable(self, node: k8s.Node) -> None:
        """Report that the node was cordoned or uncordoned; also one that was cordoned before this agent began."""
        is_unschedulable = node.spec is not None and bool(node.spec.unschedulable)
        if is_unschedulable != self._was_unschedulable:
            self._was_unschedulable = is_unschedulable
            self._say_turned("NodeNotSchedulable" if is_unschedulable else "NodeSchedulable")

    def _note_published(self, said: k8s.NodeStatus, answer: k8s.Node) -> None:
        self._published_at = trio.current_time()
        self._published = _Published(said, answer.status or k8s.NodeStatus())

    def _is_changed(self, before: k8s.NodeStatus, after: k8s.NodeStatus) -> bool:
        """True if it must be published: the agent's status, or the server's, differs from the last time. The two may
        differ from each other: a server fills in fields, and drops those whose feature is off, which would be sent
        again each time."""
        if self._published is None:
            return differs(before, after)
        return differs(self._published.said, after) or differs(self._published.answered, before)

    def _answered(self, node: k8s.Node, before: k8s.Node | None) -> None:
        """Take the server's answer; ``before``: the node that was known at the request."""
        if self._is_to_count(node, before, self._node.received):
            self._node.received = node

    def _is_to_count(self, answer: k8s.Node, before: k8s.Node | None, held: k8s.Node | None) -> bool:
        """True if an answer is newer than the held one: by its version, or because the server was set back and the held
        one is from before."""
        if before is None or not _is_older(answer, before):
            return held is None or not _is_older(answer, held)
        was, is_now = before.metadata.resource_version, answer.metadata.resource_version
        self._outage.set_back(f"node {self._identity.name} was at version {was} and is at {is_now}")
        return held is None or not _is_older(held, before) or not _is_older(answer, held)

    def _know(self, node: k8s.Node, *, is_set_back: bool = False) -> None:
        """Take the node if it is newer: an answer may come after the informer's later change, and the other way
        round."""
        held = self._node.received
        if held is None or is_set_back or not _is_older(node, held):
            self._node.received = node

    async def _take_up(self, report: NodeReport) -> k8s.Node | None:
        """Return the node object, created if it is missing and may be; None if it is missing and may not."""
        try:
            there = _decode(await self._api.get(NODES, self._identity.name))
        except ObjectMissing:
            if not self._pace.registers:
                self._say_missing()
                return None
            if report.awaits_address:  # ``NodeAddresses`` logs that
                return None
            return await self._register(report)
        if self._pace.registers and (patch := reconciliation(self._identity, there)) is not None:
            there = _decode(await self._api.patch(NODES, self._identity.name, patch, kind=PatchKind.STRATEGIC))
        takes_back = self._pace.registers and not report.keeps_extended
        if takes_back and (patch := emptied(there.status or k8s.NodeStatus())) is not None:
            there = _decode(
                await self._api.patch(NODES, self._identity.name, patch, kind=PatchKind.STRATEGIC, subresource="status")
            )
        log.info("Node %s was registered before", self._identity.name)
        return self._taken_up(there)

    def _say_missing(self) -> None:
        if not self._missing_said:
            log.warning("Node %s is not there, and this agent does not register it (registerNode)", self._identity.name)
        self._missing_said = True

    async def _register(self, report: NodeReport) -> k8s.Node:
        status = build(report, k8s.NodeStatus(), rfc3339(self._clock.now_ns()))
        self.startup.booted_ns = report.reading.booted_ns
        self.startup.tried_ns = self.startup.tried_ns or self._clock.now_ns()
        # If another client was faster, the next pass adopts its node.
        item = await self._api.create(NODES, new_node(self._identity, status))
        log.info("Node %s is registered", self._identity.name)
        node = _decode(item)
        self.startup.registered_ns = self.startup.registered_ns or self._clock.now_ns()
        self._note_published(status, node)
        self._note_ready(status)
        # Like upstream, every condition of a new node is an event, but not that it is not ready yet.
        told = status.conditions if is_ready(status) else [one for one in status.conditions if one.type != READY]
        self._say_turned(*event_reasons((), told))
        return self._taken_up(node)

    def _note_ready(self, status: k8s.NodeStatus) -> None:
        """Note when a node that this run registered was first published as ready."""
        if self.startup.registered_ns and not self.startup.ready_ns and is_ready(status):
            self.startup.ready_ns = self._clock.now_ns()

    def _taken_up(self, node: k8s.Node) -> k8s.Node:
        self._node.received, self._node.looked_up = node, None
        if self._node.watched is not None and self._node.watched.metadata.uid == node.metadata.uid:
            self._know(self._node.watched)  # it may have become newer while the answer was on its way
        self._missing_said = False
        self.registered.set()
        return self._node.received


def _is_older(node: k8s.Node, than: k8s.Node) -> bool:
    """True if it is an earlier version of the same object."""
    is_same = node.metadata.uid == than.metadata.uid
    return is_same and is_older(node.metadata.resource_version, than.metadata.resource_version)


def _decode(item: Item) -> k8s.Node:
    return read_item(item, k8s.Node)
