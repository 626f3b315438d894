"""The credentials a pod has for an image: of the Secrets it names, of the node, of credential plugins; in this order.

    imagePullSecrets ─► ports.PodObjects ┐
    docker's files, plugins ─► ports.NodeLogins ┴─► core.keyring ─► those that fit, to be tried one after the other

A Secret that is not there is reported, and the image tried without it, as upstream has it: the image may need none. So
is one without a login that can be read.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

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


class PodCredentials:
    """Asks for them whenever an image is wanted. Owns no state but the plugins'."""

    def __init__(
        self, objects: PodObjects, node: NodeLogins, plugins: Sequence[CredentialPlugin], events: Events
    ) -> None:
        self._objects = objects
        self._node = node
        self._plugins = [Plugin(plugin, node, objects, events) for plugin in plugins]
        self._events = events

    async def find(self, pod: Pod, image: str) -> tuple[Credential, ...]:
        """What the pod may try for an image, those that fit best first; nothing: nobody has anything. Waits for an
        API server and plugins, within their bounds."""
        place = repository(image)
        secrets: list[Place] = []
        node: list[Place] = []
        plugins: dict[int, list[Place]] = {}

        async def of_secrets() -> None:
            secrets.extend(await self._of_secrets(pod))

        async def of_node() -> None:
            node.extend((where, Credential(login)) for where, login in (await self._node.configured()).items())

        async def of_plugin(number: int, plugin: Plugin) -> None:
            plugins[number] = [*(await plugin.credentials(pod, place)).items()]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(of_secrets)
            nursery.start_soon(of_node)
            for number, plugin in enumerate(self._plugins):
                nursery.start_soon(of_plugin, number, plugin)
        made = [one for number in sorted(plugins) for one in plugins[number]]
        return tuple(credential for ring in (secrets, node, made) for credential in fitting(ring, place))

    async def _of_secrets(self, pod: Pod) -> list[Place]:
        found: list[Place] = []
        missing: list[str] = []
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
        if missing:
            message = f"Unable to retrieve some image pull secrets ({', '.join(missing)}); "
            message += "attempting to pull the image may not succeed."
            self._events.record(object_ref(pod), "Warning", "FailedToRetrieveImagePullSecret", message)
        return found
