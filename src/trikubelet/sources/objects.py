"""The objects that this node's pods refer to (``ports.PodObjects``), from the source of each pod.

    a pod of the API server ─► the API server (``kube.pod_objects``), once the node has joined its cluster
    a static pod            ─► the manifests: objects next to the pods

A file on a node must not read objects that it was not granted, so a static pod never gets objects of the API server. In
return, an administrator's objects on a node are not for pods of the cluster's users.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.manifest.objects import object_name
from trikubelet.core.names import is_static
from trikubelet.kit.listeners import Listeners
from trikubelet.model import k8s
from trikubelet.model.errors import ObjectUnavailable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from trikubelet.core.containers.service_links import ServiceAddress
    from trikubelet.core.manifest.objects import ManifestObject
    from trikubelet.model.objects import PodCertificate, ServiceAccountToken
    from trikubelet.ports import PodObjects


log = logging.getLogger(__name__)


class ManifestObjects:
    """Owns the ConfigMaps and Secrets in manifests, by source, and the pods that requested them. ``changed``: is called
    with the UIDs of the pods whose object was added, changed or removed."""

    def __init__(self, sources: Iterable[str]) -> None:
        self.changed: Final[Listeners[Collection[str]]] = Listeners("ConfigMaps and Secrets of manifests")
        self._by_source: dict[str, Mapping[str, ManifestObject]] = {source: {} for source in sources}
        self._asked: dict[str, set[str]] = {}

    @property
    def pods(self) -> Collection[str]:
        """Return the UIDs of pods that requested an object and still need it."""
        return self._asked.keys()

    def replace(self, source: str, objects: Iterable[ManifestObject]) -> None:
        """Replace all objects of the source. Never blocks."""
        before, now = self._by_source[source], {object_name(one): one for one in objects}
        self._by_source[source] = now
        for name in now.keys() - before.keys():
            if len(places := [place for place, objects in self._by_source.items() if name in objects]) > 1:
                log.warning("%s is given by the sources %s; the first counts", name, " and ".join(places))
        changed = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
        uids = {uid for uid, names in self._asked.items() if not names.isdisjoint(changed)}
        self.changed.notify(uids)

    async def config_map(self, pod: k8s.Pod, name: str) -> k8s.ConfigMap | None:
        """See ``ports.PodObjects``; so for all below."""
        found = await self._get(pod, "ConfigMap", name)
        return found if isinstance(found, k8s.ConfigMap) else None

    async def secret(self, pod: k8s.Pod, name: str) -> k8s.Secret | None:
        found = await self._get(pod, "Secret", name)
        return found if isinstance(found, k8s.Secret) else None

    async def token(self, pod: k8s.Pod, audience: str, seconds: int) -> ServiceAccountToken:
        raise ObjectUnavailable("only an API server makes tokens of service accounts")

    async def service_account(self, pod: k8s.Pod) -> k8s.ObjectMeta:
        raise ObjectUnavailable("only an API server has service accounts")

    async def pod_certificate(self, pod: k8s.Pod, source: k8s.PodCertificateProjection) -> PodCertificate:
        raise ObjectUnavailable("only an API server has requests for pods' certificates")

    async def services(self, pod: k8s.Pod) -> Iterable[ServiceAddress]:
        return ()

    async def runtime_class(self, pod: k8s.Pod, name: str) -> k8s.RuntimeClass | None:
        return k8s.RuntimeClass(metadata=k8s.ObjectMeta(name=name), handler=name)

    async def trust_bundles(self, pod: k8s.Pod) -> Iterable[k8s.ClusterTrustBundle]:
        raise ObjectUnavailable("only an API server has ClusterTrustBundles")

    def release(self, uid: str) -> None:
        self._asked.pop(uid, None)

    async def _get(self, pod: k8s.Pod, kind: str, name: str) -> ManifestObject | None:
        await trio.lowlevel.checkpoint()
        wanted = f"{kind} {pod.metadata.namespace}/{name}"
        self._asked.setdefault(pod.metadata.uid, set()).add(wanted)
        # If two sources have the same name, the first one counts until it has it no more.
        return next((objects[wanted] for objects in self._by_source.values() if wanted in objects), None)

    def __repr__(self) -> str:
        return f"<ManifestObjects {sum(map(len, self._by_source.values()))}, asked for by {len(self._asked)} pods>"


class NodeObjects:
    """Owns whether there is a cluster to read from."""

    def __init__(self, manifests: ManifestObjects) -> None:
        self.manifests = manifests
        self._cluster: PodObjects | None = None

    def join(self, cluster: PodObjects) -> None:
        """Use the objects of the cluster that the node has joined, for the cluster's pods."""
        self._cluster = cluster

    async def config_map(self, pod: k8s.Pod, name: str) -> k8s.ConfigMap | None:
        """See ``ports.PodObjects``; so for all below."""
        return await self._for(pod).config_map(pod, name)

    async def secret(self, pod: k8s.Pod, name: str) -> k8s.Secret | None:
        return await self._for(pod).secret(pod, name)

    async def token(self, pod: k8s.Pod, audience: str, seconds: int) -> ServiceAccountToken:
        return await self._for(pod).token(pod, audience, seconds)

    async def service_account(self, pod: k8s.Pod) -> k8s.ObjectMeta:
        return await self._for(pod).service_account(pod)

    async def pod_certificate(self, pod: k8s.Pod, source: k8s.PodCertificateProjection) -> PodCertificate:
        return await self._for(pod).pod_certificate(pod, source)

    async def services(self, pod: k8s.Pod) -> Iterable[ServiceAddress]:
        return await (self._cluster or self.manifests).services(pod)

    async def runtime_class(self, pod: k8s.Pod, name: str) -> k8s.RuntimeClass | None:
        # Also for a static pod, like upstream: a class is no secret, and there is one way to run what it names.
        return await (self._cluster or self.manifests).runtime_class(pod, name)

    async def trust_bundles(self, pod: k8s.Pod) -> Iterable[k8s.ClusterTrustBundle]:
        return await self._for(pod).trust_bundles(pod)

    def release(self, uid: str) -> None:
        self.manifests.release(uid)
        if self._cluster is not None:
            self._cluster.release(uid)

    def _for(self, pod: k8s.Pod) -> PodObjects:
        return self.manifests if self._cluster is None or is_static(pod) else self._cluster
