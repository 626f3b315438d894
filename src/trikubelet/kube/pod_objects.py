"""The API server's objects that this node's pods need (``ports.PodObjects``): ConfigMaps and Secrets, watched one by
one, tokens of service accounts, certificates, trust anchors, and the services."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from trikubelet.kube.object_watches import ObjectWatches
from trikubelet.kube.pod_certificates import PodCertificates, new_key_in_thread
from trikubelet.kube.services import Services
from trikubelet.kube.tokens import ServiceAccountTokens
from trikubelet.kube.trust_bundles import TrustBundles
from trikubelet.model import k8s
from trikubelet.model.api import CONFIG_MAPS, RUNTIME_CLASSES, SECRETS

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Collection, Iterable

    from trikubelet.core.containers.service_links import ServiceAddress
    from trikubelet.kit.outage import Outage
    from trikubelet.model.objects import PodCertificate, ServiceAccountToken
    from trikubelet.ports import Api, Events


class ApiPodObjects:
    """Joins those who ask for each. ``api`` is for watches, of which each keeps a connection, ``tokens`` for what is
    asked once; ``wake`` is given the UIDs of pods to look at again, ``events`` what is wrong with a certificate;
    ``node``: this one, as the API server has it."""

    def __init__(
        self,
        api: Api,
        tokens: Api,
        wake: Callable[[Collection[str]], None],
        outage: Outage,
        chance: random.Random,
        events: Events,
        node: Callable[[], k8s.Node | None],
    ) -> None:
        self.config_maps = ObjectWatches(api, CONFIG_MAPS, k8s.ConfigMap, wake, outage, chance)
        self.secrets = ObjectWatches(api, SECRETS, k8s.Secret, wake, outage, chance)
        self.classes = ObjectWatches(api, RUNTIME_CLASSES, k8s.RuntimeClass, wake, outage, chance)
        self.tokens = ServiceAccountTokens(tokens, chance)
        self._bundles = TrustBundles(api, wake, outage, chance)
        self._certificates = PodCertificates(api, tokens, node, new_key_in_thread(), wake, events, outage, chance)
        self._services = Services(api, wake, outage, chance)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Follow what pods ask for until cancelled. Nothing may be asked for before it has started."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.config_maps.run)
            await nursery.start(self.secrets.run)
            await nursery.start(self.classes.run)
            await nursery.start(self._bundles.run)
            await nursery.start(self._certificates.run)
            await nursery.start(self._services.run)
            task_status.started()

    async def config_map(self, pod: k8s.Pod, name: str) -> k8s.ConfigMap | None:
        """See ``ports.PodObjects``; so for all below."""
        return await self.config_maps.get(pod.metadata.uid, pod.metadata.namespace, name)

    async def secret(self, pod: k8s.Pod, name: str) -> k8s.Secret | None:
        return await self.secrets.get(pod.metadata.uid, pod.metadata.namespace, name)

    async def token(self, pod: k8s.Pod, audience: str, seconds: int) -> ServiceAccountToken:
        return await self.tokens.get(pod, audience, seconds)

    async def service_account(self, pod: k8s.Pod) -> k8s.ObjectMeta:
        return await self.tokens.account(pod)

    async def pod_certificate(self, pod: k8s.Pod, source: k8s.PodCertificateProjection) -> PodCertificate:
        return await self._certificates.get(pod, source)

    async def services(self, pod: k8s.Pod) -> Iterable[ServiceAddress]:
        return await self._services.get(pod)

    async def runtime_class(self, pod: k8s.Pod, name: str) -> k8s.RuntimeClass | None:
        return await self.classes.get(pod.metadata.uid, "", name)

    async def trust_bundles(self, pod: k8s.Pod) -> Iterable[k8s.ClusterTrustBundle]:
        return await self._bundles.get(pod.metadata.uid)

    def release(self, uid: str) -> None:
        self.config_maps.release(uid)
        self.secrets.release(uid)
        self.classes.release(uid)
        self.tokens.release(uid)
        self._bundles.release(uid)
        self._certificates.release(uid)
        self._services.release(uid)
