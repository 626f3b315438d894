"""This node's object: the cluster's, and until that is known the agent's own description.

``node.publisher`` writes it from the API server's answers, and from the informer, which has the node of an earlier
agent's registration before the publisher has read it. The evaluation of pods (labels, taints), the publisher itself,
and the local API, which serves it, read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.model import k8s


class NodeObject:
    """Owns the node's object; only the publisher writes it. ``received``: the cluster's, None while it is not known to
    be registered; ``watched``: the informer's; ``looked_up``: read by another component while it was not received, if
    that is newer. ``look_again``: true for the UID of a pod for which it may be outdated, and then it is read again;
    never without a cluster."""

    def __init__(self, described: k8s.Node | None = None) -> None:
        self._described = described
        self.received: k8s.Node | None = None
        self.watched: k8s.Node | None = None
        self.looked_up: k8s.Node | None = None
        self.look_again: Callable[[str], bool] = lambda _: False

    @property
    def newest(self) -> k8s.Node | None:
        """The received, looked up or watched one, or else the agent's description, if there is one."""
        return self.received or self.looked_up or self.watched or self._described

    def __repr__(self) -> str:
        return f"<NodeObject, {'received' if self.received else 'not received'}>"
