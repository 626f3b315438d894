"""Reads the node's object once more before a pod is permanently rejected because of the node's labels.

    admission would reject a pod ─► awaits(uid): True ─► one GET for all that wait ─► the publisher has the object
    housekeeping tries admission again ─► same ─► awaits(uid): False ─► the pod is rejected

A label and a pod bound because of it come by two watches, and the pod may come first. Upstream reads the node and
evaluates the pod again, within its sync loop (kubernetes#134445); here only the pod waits, and not for long if the
server does not answer.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.kit.slot import Slot
from trikubelet.model import k8s
from trikubelet.model.api import NODES
from trikubelet.model.api_errors import ApiError, ObjectMissing
from trikubelet.model.decoding import read_item

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.pods.node_object import NodeObject
    from trikubelet.ports import Api

log = logging.getLogger(__name__)

WAIT_SECONDS_MAX: Final = 10.0
"""The limit for one pod, and for one GET; then the known object counts."""
KEPT_SECONDS_MAX: Final = 60.0
"""A pod that was not evaluated again within this time has gone, or was admitted meanwhile."""


class SecondLook:
    """Owns which pods wait for a read of the node's object, and since when."""

    def __init__(
        self, api: Api, node_name: str, node: NodeObject, found: Callable[[k8s.Node, k8s.Node | None], None]
    ) -> None:
        """``found`` is called with the object of each read, and the one known when it was requested."""
        self._api = api
        self._node_name = node_name
        self._node = node
        self._found = found
        self._waiting: dict[str, float] = {}  # by UID, Trio's clock
        self._looked_at = float("-inf")
        self._wanted: Slot[None] = Slot()

    def awaits(self, uid: str) -> bool:
        """True if the node's object must be read once more before it leads to the pod's rejection; the read is
        requested. Never blocks."""
        now = trio.current_time()
        self._forget(now)
        since = self._waiting.setdefault(uid, now)
        if self._looked_at >= since or now >= since + WAIT_SECONDS_MAX:
            del self._waiting[uid]
            return False
        self._wanted.put(None)
        return True

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Read when a pod waits for it, until cancelled."""
        task_status.started()
        while True:
            await self._wanted.take()
            begun = trio.current_time()
            with trio.move_on_after(WAIT_SECONDS_MAX):
                if await self._look():
                    self._looked_at = begun  # a later request may need a newer answer

    async def _look(self) -> bool:
        """Read the object; True if the server answered. Otherwise the waiting pods request another read."""
        before = self._node.newest
        try:
            self._found(read_item(await self._api.get(NODES, self._node_name), k8s.Node), before)
        except ObjectMissing:
            pass
        except ApiError as error:
            log.debug("No second look at node %s: %s", self._node_name, error)
            return False
        return True

    def _forget(self, now: float) -> None:
        for uid in [uid for uid, since in self._waiting.items() if now >= since + KEPT_SECONDS_MAX]:
            del self._waiting[uid]

    def __repr__(self) -> str:
        return f"<SecondLook at {self._node_name}, {len(self._waiting)} pods wait>"
