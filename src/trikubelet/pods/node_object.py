"""This node's object: as its cluster has it, and until then as the agent describes it.

Written by ``node.publisher`` when the API server said something of it. Read by whoever evaluates pods (labels, taints),
by the publisher itself, and by the local API, which shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trikubelet.model import k8s


class NodeObject:
    """Owns the node's object. ``received``: as the cluster has it, written by the publisher alone; None while it is
    not registered."""

    def __init__(self, described: k8s.Node | None = None) -> None:
        self._described = described
        self.received: k8s.Node | None = None

    @property
    def newest(self) -> k8s.Node | None:
        """As received, or else as the agent describes it, where it does."""
        return self.received or self._described

    def __repr__(self) -> str:
        return f"<NodeObject, {'received' if self.received else 'not received'}>"
