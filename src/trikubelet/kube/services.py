"""The cluster's services, as far as containers' variables need them: one watch of all, and of each only those fields.

A pod of the API server is not started before the services were known once: without the address of the API server
itself, which comes as a variable too, many a program in it could do nothing. A static pod waits for no server
(upstream: serviceHasSynced in makeEnvironmentVariables).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.containers.service_links import address_of
from trikubelet.core.names import is_static
from trikubelet.kube.informer import Informer
from trikubelet.model import k8s
from trikubelet.model.api import SERVICES, Selection
from trikubelet.model.decoding import decode_object
from trikubelet.model.errors import ObjectUnavailable

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Collection

    from trikubelet.core.containers.service_links import ServiceAddress
    from trikubelet.kit.outage import Outage
    from trikubelet.kube.known import Key
    from trikubelet.ports import Api

SYNC_SECONDS_MAX: Final = 10.0
"""A pod waits this long for the first list; then its user is notified, and it is looked at again when there is one."""


class Services:
    """Owns which pods wait for the first list. ``wake`` is given their UIDs when it is there."""

    def __init__(
        self, api: Api, wake: Callable[[Collection[str]], None], outage: Outage, chance: random.Random
    ) -> None:
        self._informer = Informer(api, SERVICES, Selection(), _decode, outage, chance)
        self._informer.add_listener(self._changed)
        self._wake = wake
        self._waiting: set[str] = set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Follow the server until cancelled."""
        await self._informer.run(task_status=task_status)

    async def get(self, pod: k8s.Pod) -> Collection[ServiceAddress]:
        """All there are. Raises ObjectUnavailable where they are not known yet."""
        if not is_static(pod):
            with trio.move_on_after(SYNC_SECONDS_MAX):
                await self._informer.synced()
            if not self._informer.has_synced:
                self._waiting.add(pod.metadata.uid)
                raise ObjectUnavailable("services have not yet been read at least once, cannot construct envvars")
        return self._informer.objects.values()

    def release(self, uid: str) -> None:
        """The pod waits no more."""
        self._waiting.discard(uid)

    def _changed(self, _: Collection[Key]) -> None:
        waiting, self._waiting = self._waiting, set()
        self._wake(waiting)

    def __repr__(self) -> str:
        return f"<Services {len(self._informer.objects)}, {len(self._waiting)} pods wait>"


def _decode(raw: bytes) -> ServiceAddress:
    return address_of(decode_object(raw, k8s.Service))
