"""What is asked of a cluster (``kube``): its API server, and what is known of its objects while pods need them."""

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
    """An API server, asked for one purpose over connections of its own, so that no other purpose delays it. A body is
    whatever msgspec encodes as the object's JSON: a record of ``model.k8s`` or a mapping."""

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Item:
        """One object. Raises ObjectMissing; but a node that asks for a pod that is gone gets Forbidden, because only
        its own pods are shown to it and this is none any more."""
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
        """Objects as they are now; at least as new as ``resource_version`` where that is given ("0": any age). With a
        limit the page may name a token for the rest, which says itself of which version. Raises Expired for a token
        that is too old."""
        ...

    def watch(
        self, resource: Resource, selection: Selection, *, resource_version: str, initial: bool = False
    ) -> AbstractAsyncContextManager[AsyncIterator[Change]]:
        """What changes after ``resource_version``, with bookmarks. With ``initial`` the objects that are there come
        first, as ADDED, ended by a bookmark that says so. Raises Expired on entry or at any item; the iteration ends
        when the server ends the watch in order."""
        ...

    async def create(self, resource: Resource, body: object, namespace: str = "", *, under: str = "") -> Item:
        """Create an object; the server's version of it. ``under`` is "name/subresource" of another object, as for
        tokens. Raises ObjectExists, Invalid, Forbidden."""
        ...

    async def replace(
        self, resource: Resource, name: str, body: object, namespace: str = "", *, subresource: str = ""
    ) -> Item:
        """Put a whole object in place of the old one. Raises Conflict when its resource version is not the newest."""
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
        """Ask for the end of an object; 0 seconds of grace remove it at once. Raises ObjectMissing, and Conflict when
        it is not the one of that UID."""
        ...


class CertificateStore(Protocol):
    """One certificate of this node with its key on the disk, and the request for the next one. Local disk only, so
    these calls are synchronous; but ``request`` and ``keep`` make keys and flush files, and are called in threads. All
    but ``drop_request`` raise OSError where the disk is full, read-only or broken."""

    def current(self) -> Certificate | None:
        """The certificate in force, or None. Raises ``model.certificates.CertificateUnusable``."""
        ...

    def request(self, subject: Subject, purpose: str) -> SigningRequest:
        """A request for the next one; its key is kept until ``keep`` or ``drop_request``, over restarts too."""
        ...

    def keep(self, certificate_pem: bytes) -> Certificate:
        """Put the certificate that came of the request in force. Raises CertificateUnusable."""
        ...

    def drop_request(self) -> None:
        """Forget the request's key: the next request has a new one. A key that cannot be removed is warned of."""
        ...


class ApiPods(Protocol):
    """The pods the API server has for this node, mirrors of static pods among them. The informer knows."""

    @property
    def objects(self) -> Mapping[tuple[str, str], k8s.Pod]:
        """Every pod by namespace and name, as it was last heard of."""
        ...

    def faults(self) -> Mapping[tuple[str, str], Unread]:
        """Pods that cannot be read in their newest version, and why; ``objects`` has their last version that could be,
        if there was one."""
        ...

    @property
    def version(self) -> str:
        """Up to which version everything is known; "" where that is unknown."""
        ...

    @property
    def has_synced(self) -> bool:
        """Whether the server was listed at least once; before that nothing follows from what is missing."""
        ...


class PodObjects(Protocol):
    """The objects that the pods of this node refer to: an API server's, or, for static pods, those in the manifests. A
    pod that asked for an object is looked at again when that changes, until it is released. All wait for a server's
    word, but not for ever: raises ``model.errors.ObjectUnavailable``."""

    async def config_map(self, pod: k8s.Pod, name: str) -> k8s.ConfigMap | None:
        """A ConfigMap of the pod's namespace, None where there is none."""
        ...

    async def secret(self, pod: k8s.Pod, name: str) -> k8s.Secret | None:
        """A Secret of the pod's namespace, None where there is none."""
        ...

    async def token(self, pod: k8s.Pod, audience: str, seconds: int) -> ServiceAccountToken:
        """A token of the pod's service account, bound to the pod, meant to live that long and with enough of its life
        left; "" is the API server's own audience."""
        ...

    async def service_account(self, pod: k8s.Pod) -> k8s.ObjectMeta:
        """What the pod's service account is called, which one it is, and what is written on it, now."""
        ...

    async def pod_certificate(self, pod: k8s.Pod, source: k8s.PodCertificateProjection) -> PodCertificate:
        """A key for the pod and the certificate that the source's signer made for it, fresh enough to be shown. A pod
        that got none is looked at again when there is."""
        ...

    async def services(self, pod: k8s.Pod) -> Iterable[ServiceAddress]:
        """The cluster's services, whose addresses the pod's containers get. A pod that learned that they are not
        known yet is looked at again when they are; one that has them is not, whatever becomes of them."""
        ...

    async def runtime_class(self, pod: k8s.Pod, name: str) -> k8s.RuntimeClass | None:
        """The class of that name, None where there is none. Without a cluster every name is a class whose handler has
        that name."""
        ...

    async def trust_bundles(self, pod: k8s.Pod) -> Iterable[k8s.ClusterTrustBundle]:
        """The cluster's bundles of trust anchors, all of them."""
        ...

    def release(self, uid: str) -> None:
        """The pod needs nothing any more. Idempotent."""
        ...


class Claims(Protocol):
    """The claims that pods of this node name, the volumes they are bound to, and what their drivers need, as an API
    server has them now. Raises ``model.errors.ObjectUnavailable``, also for what does not exist where None is no
    answer."""

    async def claim(self, namespace: str, name: str) -> k8s.PersistentVolumeClaim:
        """A claim."""
        ...

    async def volume(self, name: str) -> k8s.PersistentVolume:
        """A persistent volume."""
        ...

    async def csi_driver(self, name: str) -> k8s.CSIDriver | None:
        """What a CSI driver said of itself; None where it did not."""
        ...

    async def attachment(self, name: str) -> k8s.VolumeAttachment | None:
        """A volume's attachment to this node; None where there is none."""
        ...

    async def secret(self, namespace: str, name: str) -> k8s.Secret:
        """A secret that a persistent volume names."""
        ...

    async def patch_claim_status(
        self, claim: k8s.PersistentVolumeClaim, merge: Mapping[str, object]
    ) -> k8s.PersistentVolumeClaim:
        """Merge into the claim's status; what it is then. A resource version in the body's metadata is a
        precondition."""
        ...
