"""A pod's credentials for an image: from the Secrets it names, the node and credential plugins, in this order.

    imagePullSecrets ─► ports.PodObjects ┐
    docker's files, plugins ─► ports.NodeLogins ┴─► core.keyring ─► those that fit, to be tried one after the other

A Secret that is missing, or that has no readable login, does not block the pull, because the image may need none. The
caller reports such Secrets if the pull then fails, like upstream since 1.37.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

import trio

from trikubelet.core.image_names import repository
from trikubelet.core.keyring import fitting, secret_logins
from trikubelet.core.names import object_ref
from trikubelet.images.plugins import Plugin
from trikubelet.model.errors import ObjectUnavailable
from trikubelet.model.registry import Credential, SecretOwner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.model.credential_plugin import CredentialPlugin
    from trikubelet.model.k8s import Pod
    from trikubelet.ports import Events, NodeLogins, PodObjects

log = logging.getLogger(__name__)

Place = tuple[str, Credential]


class Found(NamedTuple):
    """The credentials a pod may try for an image, best fit first, and the names of the Secrets without a login."""

    credentials: tuple[Credential, ...]
    missing: tuple[str, ...] = ()


class PodCredentials:
    """Looks up credentials for each image that is needed. Owns no state except the plugins' caches."""

    def __init__(
        self, objects: PodObjects, node: NodeLogins, plugins: Sequence[CredentialPlugin], events: Events
    ) -> None:
        self._objects = objects
        self._node = node
        self._plugins = [Plugin(plugin, node, objects, events) for plugin in plugins]

    async def find(self, pod: Pod, image: str) -> Found:
        """Return the pod's credentials for an image. Waits for an API server and plugins, within their bounds."""
        place = repository(image)
        secrets: list[Place] = []
        missing: list[str] = []
        node: list[Place] = []
        plugins: dict[int, list[Place]] = {}

        async def of_secrets() -> None:
            secrets.extend(await self._of_secrets(pod, missing))

        async def of_node() -> None:
            node.extend((where, Credential(login)) for where, login in (await self._node.configured()).items())

        async def of_plugin(number: int, plugin: Plugin) -> None:
            plugins[number] = [*(await plugin.credentials(pod, place)).items()]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(of_secrets)
            nursery.start_soon(of_node)
            for number, plugin in enumerate(self._plugins):
                nursery.start_soon(of_plugin, number, plugin)
        # In the order of the configuration, not of the answers: which login is tried first must not depend on timing.
        made = [one for number in sorted(plugins) for one in plugins[number]]
        fit = tuple(credential for ring in (secrets, node, made) for credential in fitting(ring, place))
        return Found(fit, tuple(missing))

    async def _of_secrets(self, pod: Pod, missing: list[str]) -> list[Place]:
        found: list[Place] = []
        for name in dict.fromkeys(reference.name for reference in pod.spec.image_pull_secrets if reference.name):
            try:
                secret = await self._objects.secret(pod, name)
                if secret is None:
                    raise ValueError("there is no such Secret")
                meta = secret.metadata
                owner = SecretOwner(meta.uid, meta.namespace, meta.name)
                found += [(place, Credential(login, owner)) for place, login in secret_logins(secret).items()]
            except (ObjectUnavailable, ValueError) as error:
                log.warning("Pod %s: no login from its image pull secret %s: %s", object_ref(pod), name, error)
                missing.append(name)
        return found
