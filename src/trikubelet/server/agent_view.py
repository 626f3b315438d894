"""What the local API may ask of the agent beyond its pods: the node's object, images, what is configured, a restart.

``app/agent_view.py`` implements it; tests give one of their own. Apart from ``NodeView``, because the node's own port
shows none of this, and because here some answers take a call to the runtime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trikubelet.core.doctor import Finding
    from trikubelet.model import k8s


class ImageNote(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One image of the runtime, with its names by tag and by digest."""

    id: str
    tags: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    size_bytes: int = 0
    pinned: bool = False


class ConfigNote(msgspec.Struct, frozen=True, rename="camel"):
    """What the agent runs with. ``configuration`` is the whole KubeletConfiguration, secrets masked; ``provenance``
    says of each given field, flag and place where it was given; ``places`` are directories and files by what they are
    for; ``manifests`` is where static pods are looked for, empty where nowhere; ``flags`` are given ones that neither
    the configuration nor the places mention, with their values."""

    configuration: dict[str, Any]
    provenance: dict[str, str]
    places: dict[str, str]
    node_name: str
    manifests: str = ""
    flags: dict[str, str] = {}


class AgentView(Protocol):
    """The agent, for those who may open its socket."""

    async def node(self) -> k8s.Node:
        """The node as its cluster has it, or would have it."""
        ...

    async def images(self) -> Sequence[ImageNote]:
        """The images the runtime has. Raises RuntimeCallError."""
        ...

    def configuration(self) -> ConfigNote:
        """What the agent runs with."""
        ...

    def kubeconfig(self) -> bytes:
        """How kubectl asks this node. Raises NotShown where it cannot."""
        ...

    def restart(self, namespace: str, name: str, container: str) -> Mapping[str, str]:
        """Request a restart of all containers of a pod, or of one. Return the runtime's ids of the runs that will be
        stopped, by the names of the containers. Raises NotShown or NoSuchPod where there is nothing to restart."""
        ...

    async def examined(self) -> Sequence[Finding]:
        """What is wrong with this node, and what is well."""
        ...
