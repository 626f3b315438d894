"""Taints that drive a pod away from the node. Only NoExecute concerns the node: others are for schedulers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trikubelet.model import k8s

NO_EXECUTE = "NoExecute"


def is_driven_away(pod: k8s.Pod, node: k8s.Node) -> bool:
    """True if the node has a NoExecute taint that the pod does not tolerate."""
    taints = node.spec.taints if node.spec is not None else ()
    return any(
        taint.effect == NO_EXECUTE and not any(tolerates(toleration, taint) for toleration in pod.spec.tolerations)
        for taint in taints
    )


def tolerates(toleration: k8s.Toleration, taint: k8s.Taint) -> bool:
    """True if the toleration matches the taint. An empty effect or key of a toleration matches any."""
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return toleration.value == taint.value
        case _:
            return False
