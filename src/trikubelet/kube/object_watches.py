"""Single objects, each watched for as long as a pod of this node needs it.

    first pod asks ─► informer of that one object ─► changed: its pods are woken
                        │ └─ immutable: kept, no longer watched
    last pod released ──┴─► forgotten

A node may ask for an object only by its name and only while a pod bound to the node refers to it (NodeRestriction), so
there is one watch for each, and all pods that refer to an object share it and the only copy there is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

import trio

from trikubelet.kit.background import BackgroundTasks
from trikubelet.kube.informer import Informer
from trikubelet.model import k8s
from trikubelet.model.api import Selection
from trikubelet.model.decoding import decode_object
from trikubelet.model.errors import ObjectUnavailable

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Collection

    from trikubelet.kit.outage import Outage
    from trikubelet.kube.known import Key
    from trikubelet.model.api import Resource
    from trikubelet.ports import Api

T = TypeVar("T", bound=k8s.ConfigMap | k8s.Secret | k8s.RuntimeClass)

ANSWER_SECONDS_MAX: Final = 10.0
"""A pod waits this long for the server's first answer about an object; then its user is notified, and it asks again
later."""


class _Watch(Generic[T]):
    """Owns which pods need one object, and which of them wait for the first answer about it: those it need not wake."""

    def __init__(self, informer: Informer[T]) -> None:
        self.informer = informer
        self.uids: set[str] = set()
        self.waiting: set[str] = set()
        self.scope = trio.CancelScope()

    async def run(self) -> None:
        with self.scope:
            await self.informer.run()


class ObjectWatches(Generic[T]):
    """Owns which objects of one kind are watched, and for which pods. ``wake`` is given the UIDs of the pods whose
    object changed."""

    def __init__(
        self,
        api: Api,
        resource: Resource,
        type_: type[T],
        wake: Callable[[Collection[str]], None],
        outage: Outage,
        chance: random.Random,
    ) -> None:
        self._api = api
        self._resource = resource
        self._type = type_
        self._wake = wake
        self._outage = outage
        self._chance = chance
        self._watches: dict[Key, _Watch[T]] = {}
        self._tasks = BackgroundTasks()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the watches' nursery open until cancelled."""
        await self._tasks.run(task_status=task_status)

    async def get(self, uid: str, namespace: str, name: str) -> T | None:
        """The object, needed by the pod of that UID from now on; None where there is none. Raises ObjectUnavailable
        where the server does not answer, or answers what cannot be read."""
        key = (namespace, name)
        watch = self._watches.get(key) or self._begin(key)
        watch.uids.add(uid)
        informer = watch.informer
        watch.waiting.add(uid)
        try:
            with trio.move_on_after(ANSWER_SECONDS_MAX):
                await informer.synced()
        finally:
            watch.waiting.discard(uid)
        if not informer.has_synced:
            kind = self._resource.kind.lower()
            raise ObjectUnavailable(f"failed to sync {kind} cache: timed out waiting for the condition")
        if key not in informer.objects and key in informer.faults():
            raise ObjectUnavailable(f"cannot read {self._resource.kind} {name}: {informer.faults()[key].why}")
        return informer.objects.get(key)

    def release(self, uid: str) -> None:
        """The pod needs none of them any more."""
        for key, watch in list(self._watches.items()):
            watch.uids.discard(uid)
            if not watch.uids:
                watch.scope.cancel()
                del self._watches[key]

    def _begin(self, key: Key) -> _Watch[T]:
        selection = Selection(namespace=key[0], fields=f"metadata.name={key[1]}")
        watch = _Watch(Informer(self._api, self._resource, selection, self._decode, self._outage, self._chance))

        def changed(_: Collection[Key]) -> None:
            held = watch.informer.objects.get(key)
            if isinstance(held, k8s.ConfigMap | k8s.Secret) and held.immutable:
                watch.scope.cancel()
            self._wake(watch.uids - watch.waiting)

        watch.informer.add_listener(changed)
        self._watches[key] = watch
        self._tasks.start_soon(watch.run)
        return watch

    def _decode(self, raw: bytes) -> T:
        return decode_object(raw, self._type)

    def __len__(self) -> int:
        """The number of objects that are held."""
        return len(self._watches)

    def __repr__(self) -> str:
        return f"<ObjectWatches of {self._resource.plural}: {len(self)}>"
