"""Ports of a cluster (``kube``): its API server, and the cached objects that pods need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping
    from contextlib import AbstractAsyncContextManager

    from trikubelet.core.containers.service_links import ServiceAddress
    from trikubelet.model import k8s
    from trikubelet.model.api import Change, Item, Page, PatchKind, Resource, Selection, Unread
    from trikubelet.model.certificates import Certificate, SigningRequest, Subject
    from trikubelet.model.objects import PodCertificate, ServiceAccountToken


class Api(Protocol):
    """An API server, for one purpose with connections of its own, so that no other purpose delays it. A body is
    anything that msgspec encodes as the object's JSON: a record of ``model.k8s`` or a mapping."""

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Item:
        """Return one object. Raises ObjectMissing. For a deleted pod a node gets Forbidden instead, because a node may
        only read its own pods, and a deleted pod is not one of them."""
        ...

    async def list(
        self,
        resource: Resource,
        selection: Selection,
        *,
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page:
        """Return the current objects, at least as new as ``resource_version`` if given ("0": any age). With a limit the
        page may have a token for the rest, which contains the version. Raises Expired for a token that is too old."""
        ...

    def watch(
        self, resource: Resource, selection: Selection, *, resource_version: str, initial: bool = False
    ) -> AbstractAsyncContextManager[AsyncIterator[Change]]:
        """Yield the changes after ``resource_version``, with bookmarks. With ``initial`` the existing objects come
        first, as ADDED, ended by a bookmark that is marked so. Raises Expired on entry or at any item; the iteration
        ends when the server ends the watch normally."""
        ...

    async def create(self, resource: Resource, body: object, namespace: str = "", *, under: str = "") -> Item:
        """Create an object and return the server's version of it. ``under``: "name/subresource" of another object, as
        for tokens. Raises ObjectExists, Invalid, Forbidden."""
        ...

    async def replace(
        self, resource: Resource, name: str, body: object, namespace: str = "", *, subresource: str = ""
    ) -> Item:
        """Replace the whole object. Raises Conflict if its resource version is not the newest."""
        ...

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: object,
        namespace: str = "",
        *,
        kind: PatchKind,
        subresource: str = "",
    ) -> Item:
        """Merge into an object. A UID or resource version in the body's metadata is a precondition: raises Conflict."""
        ...

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        grace_seconds: int | None = None,
        uid: str = "",
    ) -> None:
        """Request the deletion of an object; 0 seconds of grace remove it at once. Raises ObjectMissing, and Conflict
        if its UID differs."""
        ...


class CertificateStore(Protocol):
    """One certificate of this node with its key on the disk, and the request for the next one. It is on a local disk,
    so these calls are synchronous; but ``request`` and ``keep`` make keys and flush files, and are called in threads.
    All but ``drop_request`` raise OSError if the disk is full, read-only or broken."""

    def current(self) -> Certificate | None:
        """Return the certificate in use, or None. Raises ``model.certificates.CertificateUnusable``."""
        ...

    def request(self, subject: Subject, purpose: str) -> SigningRequest:
        """Return a request for the next one; its key is kept until ``keep`` or ``drop_request``, over restarts too."""
        ...

    def keep(self, certificate_pem: bytes) -> Certificate:
        """Start to use the certificate issued for the request. Raises CertificateUnusable."""
        ...

    def drop_request(self) -> None:
        """Drop the request's key: the next request has a new one. A key that cannot be removed is logged as a
        warning."""
        ...


class ApiPods(Protocol):
    """The API server's pods for this node, mirror pods among them. The informer implements it."""

    @property
    def objects(self) -> Mapping[tuple[str, str], k8s.Pod]:
        """Return the last received version of every pod, by namespace and name."""
        ...

    def faults(self) -> Mapping[tuple[str, str], Unread]:
        """Return the pods whose newest version cannot be decoded, and why; ``objects`` has their last decodable
        version, if there was one."""
        ...

    @property
    def version(self) -> str:
        """Return the version up to which everything is known; "" if unknown."""
        ...

    @property
    def has_synced(self) -> bool:
        """True if the server was listed at least once; before that a missing pod means nothing."""
        ...


class PodObjects(Protocol):
    """The objects in the specs of this node's pods: an API server's, or, for static pods, those in the manifests. A pod
    that requested an object is synced again when that changes, until it is released. All methods wait for the server's
    answer, within a deadline: raises ``model.errors.ObjectUnavailable``."""

    async def config_map(self, pod: k8s.Pod, name: str) -> k8s.ConfigMap | None:
        """Return a ConfigMap of the pod's namespace, None if it does not exist."""
        ...

    async def secret(self, pod: k8s.Pod, name: str) -> k8s.Secret | None:
        """Return a Secret of the pod's namespace, None if it does not exist."""
        ...

    async def token(self, pod: k8s.Pod, audience: str, seconds: int) -> ServiceAccountToken:
        """Return a token of the pod's service account, bound to the pod, valid for about that time and not close to its
        expiry; the audience "" is the API server's own."""
        ...

    async def service_account(self, pod: k8s.Pod) -> k8s.ObjectMeta:
        """Return the current metadata of the pod's service account: name, UID, labels and annotations."""
        ...

    async def pod_certificate(self, pod: k8s.Pod, source: k8s.PodCertificateProjection) -> PodCertificate:
        """Return a key for the pod and the certificate that the source's signer issued for it, not yet due for renewal.
        A pod that got none is synced again when there is one."""
        ...

    async def services(self, pod: k8s.Pod) -> Iterable[ServiceAddress]:
        """Return the cluster's services, whose addresses the pod's containers get. A pod that got an error because they
        are unknown is synced again when they are known; later changes do not sync it."""
        ...

    async def runtime_class(self, pod: k8s.Pod, name: str) -> k8s.RuntimeClass | None:
        """Return the class of that name, None if it does not exist. Without a cluster every name is a class whose
        handler has that name."""
        ...

    async def trust_bundles(self, pod: k8s.Pod) -> Iterable[k8s.ClusterTrustBundle]:
        """Return all ClusterTrustBundles."""
        ...

    def release(self, uid: str) -> None:
        """Forget the pod's requests, because it needs no objects any more. Idempotent."""
        ...


class Claims(Protocol):
    """The claims of this node's pods, their bound volumes, and the objects that CSI drivers need, as the API server has
    them now. Raises ``model.errors.ObjectUnavailable``, also for missing objects unless None is returned."""

    async def claim(self, namespace: str, name: str) -> k8s.PersistentVolumeClaim:
        """Return a claim."""
        ...

    async def volume(self, name: str) -> k8s.PersistentVolume:
        """Return a persistent volume."""
        ...

    async def csi_driver(self, name: str) -> k8s.CSIDriver | None:
        """Return a CSI driver's CSIDriver object; None without one."""
        ...

    async def attachment(self, name: str) -> k8s.VolumeAttachment | None:
        """Return a volume's attachment to this node; None without one."""
        ...

    async def secret(self, namespace: str, name: str) -> k8s.Secret:
        """Return a secret that a persistent volume names."""
        ...

    async def patch_claim_status(
        self, claim: k8s.PersistentVolumeClaim, merge: Mapping[str, object]
    ) -> k8s.PersistentVolumeClaim:
        """Merge into the claim's status and return it. A resource version in the body's metadata is a precondition."""
        ...
