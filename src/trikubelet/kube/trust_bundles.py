"""A cluster's bundles of trust anchors: one watch of all, for as long as a pod of this node mounts some.

Clusters need not serve them, so they are not asked for before a pod needs some. 1.37 serves certificates.k8s.io/v1,
older servers v1beta1 if their operator wants that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from trikubelet.kit.background import BackgroundTasks
from trikubelet.kube.informer import Informer
from trikubelet.kube.served_versions import ServedVersions
from trikubelet.model import k8s
from trikubelet.model.api import CLUSTER_TRUST_BUNDLES, Selection
from trikubelet.model.decoding import decode_object
from trikubelet.model.errors import ObjectUnavailable

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Collection

    from trikubelet.kit.outage import Outage
    from trikubelet.kube.known import Key
    from trikubelet.ports import Api

ANSWER_SECONDS_MAX: Final = 10.0
"""A pod waits this long for the first list; then its user is notified, and it is looked at again when there is one."""

_VERSIONS: Final = (CLUSTER_TRUST_BUNDLES.version, *CLUSTER_TRUST_BUNDLES.older)


class TrustBundles:
    """Owns which pods need trust anchors. ``wake`` is given their UIDs when bundles change."""

    def __init__(
        self, api: Api, wake: Callable[[Collection[str]], None], outage: Outage, chance: random.Random
    ) -> None:
        self._api = ServedVersions(api)
        self._wake = wake
        self._outage = outage
        self._chance = chance
        self._uids: set[str] = set()
        self._asking: set[str] = set()
        self._informer: Informer[k8s.ClusterTrustBundle] | None = None
        self._scope = trio.CancelScope()
        self._tasks = BackgroundTasks()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the watch's nursery open until cancelled."""
        await self._tasks.run(task_status=task_status)

    async def get(self, uid: str) -> Collection[k8s.ClusterTrustBundle]:
        """All there are, needed by the pod of that UID from now on. Raises ObjectUnavailable where the server does not
        say."""
        informer = self._informer or self._begin()
        self._uids.add(uid)
        self._asking.add(uid)
        try:
            with trio.move_on_after(ANSWER_SECONDS_MAX):
                await informer.synced()
        finally:
            self._asking.discard(uid)
        if not informer.has_synced:
            raise ObjectUnavailable(
                f"cannot read ClusterTrustBundles: no answer within {ANSWER_SECONDS_MAX:g} s (does this cluster serve "
                f"{CLUSTER_TRUST_BUNDLES.plural}.{CLUSTER_TRUST_BUNDLES.group} in {' or '.join(_VERSIONS)}?)"
            )
        return informer.objects.values()

    def release(self, uid: str) -> None:
        """The pod needs none any more."""
        self._uids.discard(uid)
        if not self._uids and self._informer is not None:
            self._scope.cancel()
            self._informer = None

    def _begin(self) -> Informer[k8s.ClusterTrustBundle]:
        made = Informer(self._api, CLUSTER_TRUST_BUNDLES, Selection(), _decode, self._outage, self._chance)
        made.add_listener(self._changed)
        self._informer, self._scope = made, trio.CancelScope()
        self._tasks.start_soon(self._follow, made, self._scope)
        return made

    async def _follow(self, informer: Informer[k8s.ClusterTrustBundle], scope: trio.CancelScope) -> None:
        with scope:
            await informer.run()

    def _changed(self, _: Collection[Key]) -> None:
        self._wake(self._uids - self._asking)

    def __repr__(self) -> str:
        return f"<TrustBundles for {len(self._uids)} pods>"


def _decode(raw: bytes) -> k8s.ClusterTrustBundle:
    return decode_object(raw, k8s.ClusterTrustBundle)
