"""The cluster's data for a CSI volume, which is looked up before its driver is called: the driver's object, the
attachment to this node, secrets, and the pod info that the driver requires.

A node may get each of these objects by name, but may not watch them. Attachments show in the node's own object, which
is watched anyway: a volume is attached when it is in the node's ``volumesAttached`` and also in its ``volumesInUse``,
which keeps it from being detached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import trio

from trikubelet.core import csi
from trikubelet.core.containers.volume_files import decoded

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from trikubelet.model.k8s import CSIDriver, Node, Pod
    from trikubelet.model.objects import ObjectRef
    from trikubelet.ports import Claims, Events, PodObjects

ATTACH_SECONDS_MAX: Final = 100.0
"""How long a sync waits for a controller to attach a volume; less than the limit for all volumes of a pod."""


class CsiAttachments:
    """Owns the set of volumes that pods need attached: the unique name, by the pod's UID and the volume's name."""

    def __init__(self, node_name: str) -> None:
        self._node_name = node_name
        self._claims: Claims | None = None
        self._objects: PodObjects | None = None
        self._events: Events | None = None
        self._node: Callable[[], Node | None] = lambda: None
        self.changed: Callable[[], None] = lambda: None
        self._needed: dict[tuple[str, str], str] = {}
        self._node_waiters = trio.lowlevel.ParkingLot()

    def use_objects(self, objects: PodObjects) -> None:
        """Set the source of the pods' tokens."""
        self._objects = objects

    def use_claims(
        self, claims: Claims, node: Callable[[], Node | None], changed: Callable[[], None], events: Events
    ) -> None:
        """See ``ports.Volumes``."""
        self._claims, self._node, self.changed, self._events = claims, node, changed, events

    def record(self, about: Iterable[ObjectRef], type_: Literal["Normal", "Warning"], reason: str, said: str) -> None:
        """Record an event on each of these objects about a volume."""
        assert self._events is not None, "use_claims must be called first"
        for one in about:
            self._events.record(one, type_, reason, said)

    def node_changed(self) -> None:
        """Wake the pods that wait for an attachment: the node's object changed."""
        self._node_waiters.unpark_all()

    @property
    def needed(self) -> Collection[str]:
        """The unique names of the volumes that pods need attached."""
        return self._needed.values()

    def release(self, uid: str) -> None:
        """Record that the pod needs no attached volumes any more."""
        needed = [key for key in self._needed if key[0] == uid]
        for key in needed:
            del self._needed[key]
        if needed:
            self.changed()

    async def driver(self, volume: csi.Volume) -> CSIDriver | None:
        """Return the driver's object; None if there is none. Raises ValueError if the driver does not support volumes
        of this kind, and ObjectUnavailable."""
        driver = await self.claims.csi_driver(volume.driver)
        if problem := csi.lifecycle_problem(volume, driver):
            raise ValueError(problem)
        return driver

    async def attached(self, pod: Pod, volume: csi.Volume) -> Mapping[str, str]:
        """Wait until the volume is attached to this node. Return the attachment's metadata. Raises ValueError with
        upstream's message, and ObjectUnavailable."""
        key, unique = (pod.metadata.uid, volume.name), csi.unique_name(volume.driver, volume.handle)
        if key not in self._needed:
            self._needed[key] = unique
            self.changed()
        with trio.move_on_after(ATTACH_SECONDS_MAX):
            while self._why_not_attached(unique):
                await self._node_waiters.park()
        if why := self._why_not_attached(unique):
            raise ValueError(why)
        name = csi.attachment_name(volume, self._node_name)
        attachment = await self.claims.attachment(name)
        if attachment is None:
            raise ValueError(f'volumeattachments.storage.k8s.io "{name}" not found')
        if attachment.status is None or not attachment.status.attached:
            error = attachment.status.attach_error if attachment.status is not None else None
            raise ValueError(error.message if error is not None else f"volume attachment {name} is not attached yet")
        return attachment.status.attachment_metadata

    def _why_not_attached(self, unique: str) -> str:
        """Return why the volume is not attached; "" if it is."""
        # volumesInUse comes first: until the API server has it, a controller may detach the volume again.
        node = self._node()
        status = node.status if node is not None else None
        if status is None or unique not in status.volumes_in_use:
            return "Volume has not been added to the list of VolumesInUse in the node's volume status"
        if all(one.name != unique for one in status.volumes_attached):
            return "Volume not attached according to node status"
        return ""

    async def secrets(self, name: csi.SecretName | None) -> dict[str, str]:
        """Return a secret's data in the form of a driver's request. Raises ObjectUnavailable, and ValueError if a value
        is not text."""
        if name is None:
            return {}
        secret = await self.claims.secret(name.namespace, name.name)
        return {key: value.decode() for key, value in decoded(secret.data).items()}

    async def pod_context(
        self, pod: Pod, volume: csi.Volume, driver: CSIDriver | None
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Return the pod's data for the driver: one part for the volume's context, one for the secrets. Raises
        ObjectUnavailable."""
        if driver is None:
            return {}, {}
        info = csi.pod_info(pod, volume) if driver.spec.pod_info_on_mount else {}
        if not driver.spec.token_requests:
            return info, {}
        assert self._objects is not None, "use_objects must be called first"
        tokens = {
            one.audience: await self._objects.token(pod, one.audience, one.expiration_seconds or csi.TOKEN_SECONDS)
            for one in driver.spec.token_requests
        }
        context = csi.token_context(tokens)
        return (info, context) if driver.spec.service_account_token_in_secrets else ({**info, **context}, {})

    @property
    def claims(self) -> Claims:
        """The API server's claims. Raises ValueError where there is no API server."""
        if self._claims is None:
            raise ValueError("there is no API server to ask for CSI drivers")
        return self._claims
