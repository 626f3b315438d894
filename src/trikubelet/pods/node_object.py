"""This node's object: as its cluster has it, and until then as the agent describes it.

Written by ``node.publisher`` when the API server said something of it: in answer to what was published, or to the
informer, which has the node that an earlier agent registered before the publisher has asked for it. Read by whoever
evaluates pods (labels, taints), by the publisher itself, and by the local API, which shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.model import k8s


class NodeObject:
    """Owns the node's object, which the publisher alone writes. ``received``: as the cluster has it, None while it is
    not known to be registered; ``watched``: as the informer has it; ``looked_up``: as it was asked for by somebody else
    while it was not received, where that is newer. ``look_again``: whether it may be outdated for the
    pod of a UID, and is looked at once more; never without a cluster."""

    def __init__(self, described: k8s.Node | None = None) -> None:
        self._described = described
        self.received: k8s.Node | None = None
        self.watched: k8s.Node | None = None
        self.looked_up: k8s.Node | None = None
        self.look_again: Callable[[str], bool] = lambda _: False

    @property
    def newest(self) -> k8s.Node | None:
        """As received, looked up or watched, or else as the agent describes it, where it does."""
        return self.received or self.looked_up or self.watched or self._described

    def __repr__(self) -> str:
        return f"<NodeObject, {'received' if self.received else 'not received'}>"
