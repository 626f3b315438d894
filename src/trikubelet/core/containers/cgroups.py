"""The name of a pod's cgroup, below ``kubepods`` and its class (upstream: pkg/kubelet/cm)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.qos import BEST_EFFORT, BURSTABLE, qos_class

if TYPE_CHECKING:
    from trikubelet.core.containers.facts import NodeFacts
    from trikubelet.model.k8s import Pod

_CLASS = {BURSTABLE: "burstable", BEST_EFFORT: "besteffort"}


def cgroup_parent(pod: Pod, facts: NodeFacts) -> str:
    """The parent of the pod's containers, in the driver's spelling; empty where the runtime's default holds."""
    if not facts.cgroups_managed:
        return ""
    quality = _CLASS.get(qos_class(pod))
    uid = pod.metadata.uid
    if facts.cgroup_driver == "systemd":
        prefix = f"kubepods-{quality}" if quality else "kubepods"
        return f"{prefix}-pod{uid.replace('-', '_')}.slice"
    parts = [facts.cgroup_root.rstrip("/"), "kubepods", *([quality] if quality else []), f"pod{uid}"]
    return "/".join(parts)
