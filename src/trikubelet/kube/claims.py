"""Claims, persistent volumes and what CSI drivers need (``ports.Claims``), each asked of the API server by its name
when it is needed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from trikubelet.model import k8s
from trikubelet.model.api import (
    CSI_DRIVERS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    SECRETS,
    VOLUME_ATTACHMENTS,
    PatchKind,
)
from trikubelet.model.api_errors import ApiError, ApiLost, ObjectMissing
from trikubelet.model.decoding import read_item
from trikubelet.model.errors import ObjectUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from trikubelet.model.api import Item, Resource
    from trikubelet.ports import Api

T = TypeVar("T")

ANSWER_SECONDS_MAX: Final = 10.0
REQUESTS_MAX: Final = 4


class ApiClaims:
    """Asks, at most ``REQUESTS_MAX`` at a time. Owns no state."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._turns = trio.CapacityLimiter(REQUESTS_MAX)

    async def claim(self, namespace: str, name: str) -> k8s.PersistentVolumeClaim:
        """See ``ports.Claims``; so for the others."""
        return await self._get(PERSISTENT_VOLUME_CLAIMS, k8s.PersistentVolumeClaim, "PVC", name, namespace)

    async def volume(self, name: str) -> k8s.PersistentVolume:
        return await self._get(PERSISTENT_VOLUMES, k8s.PersistentVolume, f"PV {name}", name)

    async def csi_driver(self, name: str) -> k8s.CSIDriver | None:
        return await self._find(CSI_DRIVERS, k8s.CSIDriver, name)

    async def attachment(self, name: str) -> k8s.VolumeAttachment | None:
        return await self._find(VOLUME_ATTACHMENTS, k8s.VolumeAttachment, name)

    async def secret(self, namespace: str, name: str) -> k8s.Secret:
        return await self._get(SECRETS, k8s.Secret, f"secret {namespace}/{name}", name, namespace)

    async def patch_claim_status(
        self, claim: k8s.PersistentVolumeClaim, merge: Mapping[str, object]
    ) -> k8s.PersistentVolumeClaim:
        meta = claim.metadata
        patch = partial(self._api.patch, kind=PatchKind.MERGE, subresource="status")
        what = f"the status of PVC {meta.namespace}/{meta.name} cannot be patched"
        return await self._answer(
            lambda: patch(PERSISTENT_VOLUME_CLAIMS, meta.name, merge, meta.namespace), k8s.PersistentVolumeClaim, what
        )

    async def _find(self, resource: Resource, type_: type[T], name: str) -> T | None:
        try:
            return await self._get(resource, type_, f"{resource.kind} {name}", name)
        except ObjectUnavailable as error:
            if isinstance(error.__cause__, ObjectMissing):
                return None
            raise

    async def _get(self, resource: Resource, type_: type[T], what: str, name: str, namespace: str = "") -> T:
        failed = f"failed to fetch {what} from API server"
        return await self._answer(lambda: self._api.get(resource, name, namespace), type_, failed)

    async def _answer(self, ask: Callable[[], Awaitable[Item]], type_: type[T], failed: str) -> T:
        try:
            async with self._turns:
                with trio.move_on_after(ANSWER_SECONDS_MAX):
                    return read_item(await ask(), type_)
            raise ApiLost(f"no answer within {ANSWER_SECONDS_MAX:g} s")
        except ApiError as error:
            raise ObjectUnavailable(f"{failed}: {error}") from error
