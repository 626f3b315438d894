"""The node's lease: the heartbeat by which the cluster judges this node.

    renew ─► wait a quarter of the lease ─► renew …       failed ─► 0.2 s, 0.4 s, … 7 s ─► again
    no lease, and no node object yet ─► 0.2 s, 0.4 s, … 7 s ─► check again

The lease is renewed from this task's last copy, without reading it first; another writer causes a conflict, and then
the newest version is read and renewed at once. It has its own connection to the API server, so other requests of the
node do not delay it.

Only this agent renews the lease: if the time after a conflict is not one of its own, another agent uses the node's
name, which is logged. It is no outage, and both continue, because only an operator can decide which of them to stop. A
time before all that this agent remembers is not another agent's: it comes from an etcd that was restored from a backup.

A lease without an owner would stay when its node is deleted, so none is created before the node's object is known. An
agent that may not register the node waits for it. An existing lease is renewed, and gets its owner later.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

import msgspec
import trio

from trikubelet.core.resource_version import is_older
from trikubelet.core.timestamps import parse_rfc3339, rfc3339_micro
from trikubelet.kit.backoff import Backoff
from trikubelet.kit.log_rate_limit import LogRateLimit
from trikubelet.model import k8s
from trikubelet.model.api import LEASES
from trikubelet.model.api_errors import (
    OVERTAKEN,
    ApiError,
    ApiLost,
    ApiUnreachable,
    ObjectMissing,
    retry_after_seconds,
)
from trikubelet.model.decoding import read_item
from trikubelet.ports.request_outcomes import RequestOutcomes

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from trikubelet.kit.outage import Outage
    from trikubelet.model.api import Item
    from trikubelet.ports import Api, Clock

log = logging.getLogger(__name__)

DOING: Final = "renewing the node's lease"
NAMESPACE: Final = "kube-node-lease"
RENEWALS_PER_LEASE: Final = 4
JITTER: Final = 0.04
RETRY_SECONDS_MAX: Final = 7.0
"""The longest pause after an error that the server answered with."""
KNOCK_SECONDS_MAX: Final = 3.5
"""The longest pause after a request without an answer. The first answer after an outage ends the pauses of all other
parts, so this bounds how late the node notices that the API server is back."""
MICROSECOND_NS: Final = 1000
"""The resolution of a lease's times."""
UNANSWERED: Final = (ApiLost, ApiUnreachable, trio.TooSlowError)
FAILURES_BEFORE_RESET: Final = 3
"""The number of failures in a row after which the connections are recreated: one may be half open."""
RENEWALS_REMEMBERED: Final = 8
"""The number of own renewals to remember: after a lost answer the server has one that the agent does not know of."""
RIVAL_SILENCE_SECONDS: Final = 600.0
"""The time between two logs about another agent."""


class NodeLease:
    """Owns this node's lease."""

    def __init__(
        self,
        api: Api,
        node_name: str,
        node_uid: Callable[[], str],
        duration_seconds: int,
        clock: Clock,
        outage: Outage,
        reset: Callable[[], None],
        chance: random.Random,
    ) -> None:
        """``node_uid``: the UID of the node object, "" while it is unknown. ``reset`` closes the API's connections."""
        self._api = api
        self._node_name = node_name
        self._node_uid = node_uid
        self._duration_seconds = duration_seconds
        self._period_seconds = duration_seconds / RENEWALS_PER_LEASE
        self._clock = clock
        self._outage = outage
        self._outcomes = RequestOutcomes(DOING, outage)
        self._reset = reset
        self._chance = chance
        self._held: k8s.Lease | None = None
        self._version = ""
        self._sent: deque[str] = deque(maxlen=RENEWALS_REMEMBERED)
        self._accepted = ""
        self._conflicts = 0
        self._rival_log = LogRateLimit(RIVAL_SILENCE_SECONDS)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the lease fresh until cancelled."""
        task_status.started()
        backoff = Backoff(0.2, RETRY_SECONDS_MAX, jitter=JITTER, chance=self._chance)
        knocks = Backoff(0.2, KNOCK_SECONDS_MAX, jitter=JITTER, chance=self._chance)
        failures = 0
        while True:
            begun = trio.current_time()
            try:
                with trio.fail_after(self._period_seconds):
                    is_held = await self._renew()
            except (ApiError, trio.TooSlowError) as error:
                self._held = None
                self._conflicts = self._conflicts + 1 if isinstance(error, OVERTAKEN) else 0
                if self._outcomes.failed(error):
                    failures += 1
                    if failures % FAILURES_BEFORE_RESET == 0:
                        self._reset()
                if self._conflicts == 1:
                    continue  # the next read shows its writer
                asked_seconds = min(retry_after_seconds(error), self._period_seconds)
                pauses = knocks if isinstance(error, UNANSWERED) else backoff
                await trio.sleep(max(pauses.next_seconds(), asked_seconds))
                continue
            failures = self._conflicts = 0
            self._outcomes.worked()
            if not is_held:
                await trio.sleep(backoff.next_seconds())
                continue
            backoff.reset()
            knocks.reset()
            await trio.sleep_until(begun + self._period_seconds * (1 + JITTER * self._chance.random()))

    async def _renew(self) -> bool:
        """Renew once; True if there is a lease, or was a node to create it for. Raises ApiError."""
        held = self._held or await self._find()
        if held is None and not self._node_uid():
            return False
        if held is not None and self._conflicts:
            self._look_for_rival(held)
        renewed = self._renewed(held)
        if held is None:
            item = await self._api.create(LEASES, renewed, NAMESPACE)
        else:
            item = await self._api.replace(LEASES, self._node_name, renewed, NAMESPACE)
        self._held = self._answered(item)
        self._accepted = self._sent[-1]
        return True

    def _look_for_rival(self, found: k8s.Lease) -> None:
        """Log, at intervals, that another agent renews this lease, if the lease after a conflict shows that."""
        spec = found.spec or k8s.LeaseSpec()
        if not self._is_a_rivals(spec.renew_time) or not self._rival_log.may_log():
            return
        log.warning(
            "Another agent seems to use this node's name, %s: %s renewed its lease at %s, and this agent did not. Both "
            "run the node's pods and undo what the other writes; stop one, or give it a name of its own with "
            "--hostname-override",
            self._node_name,
            spec.holder_identity or "somebody",
            spec.renew_time,
        )

    def _is_a_rivals(self, renew_time: str) -> bool:
        """True if this agent did not write that time, now or before the times it remembers."""
        if renew_time in ("", self._accepted, *self._sent):
            return False
        try:
            return bool(self._sent) and parse_rfc3339(renew_time) > parse_rfc3339(self._sent[0])
        except ValueError:
            return True

    async def _find(self) -> k8s.Lease | None:
        try:
            item = await self._api.get(LEASES, self._node_name, NAMESPACE)
        except ObjectMissing:
            return None
        return self._answered(item)

    def _answered(self, item: Item) -> k8s.Lease:
        """Return the lease of an answer. If its version is older than the last, etcd was restored from a backup. That
        shows here within one period, while others hardly notice: a watch reports nothing to a client that waits for
        changes after a newer version."""
        lease = read_item(item, k8s.Lease)
        before, self._version = self._version, lease.metadata.resource_version
        if is_older(self._version, before):
            self._conflicts = 0  # this agent wrote it long ago, not another one
            self._outage.set_back(f"lease {self._node_name} was at version {before} and is at {self._version}")
        return lease

    def _renewed(self, held: k8s.Lease | None) -> k8s.Lease:
        """Return the lease to send: one without an owner gets the node, so that it is deleted with it."""
        lease = held or k8s.Lease(
            api_version=LEASES.api_version,
            kind=LEASES.kind,
            metadata=k8s.ObjectMeta(name=self._node_name, namespace=NAMESPACE),
        )
        metadata = lease.metadata
        uid = self._node_uid()
        if uid and not metadata.owner_references:
            owner = k8s.OwnerReference(api_version="v1", kind="Node", name=self._node_name, uid=uid)
            metadata = msgspec.structs.replace(metadata, owner_references=(owner,))
        renew_time = self._next_time(lease)
        self._sent.append(renew_time)
        spec = msgspec.structs.replace(
            lease.spec or k8s.LeaseSpec(),
            holder_identity=self._node_name,
            lease_duration_seconds=self._duration_seconds,
            renew_time=renew_time,
        )
        return msgspec.structs.replace(lease, metadata=metadata, spec=spec)

    def _next_time(self, lease: k8s.Lease) -> str:
        """Return the present time, but later than the last renewal, whatever the clock: the cluster only counts a later
        time as a renewal, so a node whose clock was set back would be marked as lost although it renews. An unreadable
        time is replaced; so is the largest possible one."""
        now_ns = self._clock.now_ns()
        try:
            found_ns = parse_rfc3339(lease.spec.renew_time if lease.spec is not None else "")
            return rfc3339_micro(max(now_ns, found_ns + MICROSECOND_NS))
        except ValueError:
            return rfc3339_micro(now_ns)
