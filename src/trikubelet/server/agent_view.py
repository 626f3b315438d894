"""Protocol with what the local API reads from the agent: the Node object, images, the configuration, a restart.

``app/agent_view.py`` implements it; tests have their own implementation. It is separate from ``NodeView`` because the
node's own port shows none of this, and because some answers need a call to the runtime.
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
    """The agent's configuration. ``configuration``: the whole KubeletConfiguration, secrets masked. ``provenance``: for
    each given field, flag and place, where it was set. ``places``: directories and files, by their purpose.
    ``manifests``: the place of static pods, empty where there is none. ``flags``: given flags that neither the
    configuration nor the places contain, with their values."""

    configuration: dict[str, Any]
    provenance: dict[str, str]
    places: dict[str, str]
    node_name: str
    manifests: str = ""
    flags: dict[str, str] = {}


class AgentView(Protocol):
    """The agent, for clients that may open its socket."""

    async def node(self) -> k8s.Node:
        """Return the Node object as the cluster has it, or as it would be registered."""
        ...

    async def images(self) -> Sequence[ImageNote]:
        """Return the runtime's images. Raises RuntimeCallError."""
        ...

    def configuration(self) -> ConfigNote:
        """Return the agent's configuration and where each value was set."""
        ...

    def kubeconfig(self) -> bytes:
        """Return a kubeconfig with which kubectl reads this node. Raises NotShown where that is not configured."""
        ...

    def restart(self, namespace: str, name: str, container: str) -> Mapping[str, str]:
        """Request a restart of all containers of a pod, or of one. Return the runtime's ids of the runs that will be
        stopped, by the names of the containers. Raises NotShown or NoSuchPod where there is nothing to restart."""
        ...

    async def examined(self) -> Sequence[Finding]:
        """Return the doctor's findings, good ones included."""
        ...
