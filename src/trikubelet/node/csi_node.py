"""Publishes this node's CSI drivers: in the CSINode object, and in the node's annotation and labels.

    a driver registered or left, the node changed, or five minutes ─► CSINode read, compared, written ─► node patched

Nothing in the agent waits for it; schedulers and attachers elsewhere do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import trio

from trikubelet.core.node_status.csi_node import csi_node, node_patch
from trikubelet.kit.backoff import Backoff
from trikubelet.kit.slot import Slot
from trikubelet.model import k8s
from trikubelet.model.api import CSI_NODES, NODES, PatchKind
from trikubelet.model.api_errors import ApiError, ObjectMissing, retry_after_seconds
from trikubelet.model.decoding import read_item
from trikubelet.ports.request_outcomes import RequestOutcomes

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from trikubelet.kit.outage import Outage
    from trikubelet.model.csi import DriverInfo
    from trikubelet.ports import Api

DOING: Final = "publishing the node's CSI drivers"
REQUEST_SECONDS_MAX: Final = 10.0
LOOK_SECONDS: Final = 300.0
"""The period after which the published objects are checked."""


class CsiNode:
    """Owns which drivers were registered with this agent process, and so which are gone, and the published state."""

    def __init__(
        self,
        api: Api,
        node: Callable[[], k8s.Node | None],
        drivers: Callable[[], Mapping[str, DriverInfo]],
        outage: Outage,
        chance: random.Random,
    ) -> None:
        """``node``: this one, as the API server has it; ``drivers``: those that are registered now."""
        self._api = api
        self._node = node
        self._drivers = drivers
        self._outcomes = RequestOutcomes(DOING, outage)
        self._chance = chance
        self._seen: set[str] = set()
        self._uid = ""
        self._published: Mapping[str, DriverInfo] = {}
        self._wakeups: Slot[None] = Slot()

    def wake(self) -> None:
        """Notice that a driver may have registered or left. Never blocks."""
        drivers = self._drivers()
        self._seen |= drivers.keys()
        if drivers != self._published:
            self._wakeups.put(None)

    def node_changed(self) -> None:
        """Notice that the node was registered, again, or changed. Never blocks."""
        node = self._node()
        if node is not None and node.metadata.uid != self._uid:
            self._wakeups.put(None)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep it published until cancelled."""
        task_status.started()
        backoff = Backoff(0.5, 60.0, jitter=0.2, chance=self._chance)
        while True:
            try:
                with trio.fail_after(REQUEST_SECONDS_MAX):
                    was_asked = await self._publish()
            except (ApiError, trio.TooSlowError) as error:
                self._outcomes.failed(error)
                await trio.sleep(max(backoff.next_seconds(), retry_after_seconds(error)))
                continue  # a wake-up meanwhile must not shorten a pause that the server needs
            backoff.reset()
            if was_asked:  # else the server's state is unknown
                self._outcomes.worked()
            with trio.move_on_after(LOOK_SECONDS):
                await self._wakeups.take()

    async def _publish(self) -> bool:
        """Publish changes; True if the server was called. Raises ApiError."""
        node = self._node()
        if node is None:
            return False  # it is published when it is registered
        drivers = self._drivers()
        gone = self._seen - drivers.keys()
        there = await self._find(node.metadata.name)
        for wanted in csi_node(there, node, drivers, gone):
            if there is None:
                item = await self._api.create(CSI_NODES, wanted)
            else:
                wanted_now = msgspec.structs.replace(wanted, metadata=_at(wanted.metadata, there))
                item = await self._api.replace(CSI_NODES, node.metadata.name, wanted_now)
            there = read_item(item, k8s.CSINode)
        if (patch := node_patch(node, drivers, gone)) is not None:
            await self._api.patch(NODES, node.metadata.name, patch, kind=PatchKind.MERGE)
        self._uid, self._published = node.metadata.uid, drivers
        return True

    async def _find(self, name: str) -> k8s.CSINode | None:
        try:
            return read_item(await self._api.get(CSI_NODES, name), k8s.CSINode)
        except ObjectMissing:
            return None


def _at(metadata: k8s.ObjectMeta, there: k8s.CSINode) -> k8s.ObjectMeta:
    """Return the metadata with the server's version, for a second write."""
    return msgspec.structs.replace(metadata, resource_version=there.metadata.resource_version)
