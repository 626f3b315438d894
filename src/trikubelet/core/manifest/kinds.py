"""Advice about objects that are no Pods: workloads, the other objects of a cluster, compose files.

``load`` uses it for a value of an unsupported kind. The advice is for users without a cluster: they must write out the
objects that a control plane would create, or use other means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.document.shown import shown
from trikubelet.model.faults import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TEMPLATES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("Deployment", "DaemonSet", "StatefulSet", "ReplicaSet", "ReplicationController"), "spec.template"),
    "Job": "spec.template",
    "CronJob": "spec.jobTemplate.spec.template",
}
"""The path of the pod template in each workload."""

_NO_IDENTITY: Final = "remove it: a pod of a manifest has no account in a cluster, and needs none"
_NO_CLAIMS: Final = "remove it, and mount a hostPath in the pod, or an emptyDir for data that may be lost"
_NO_ROUTES: Final = "remove it, and run a reverse proxy as a pod with a hostPort"
_NO_CONTROLLER: Final = "remove it: only a cluster's control plane reads it"
_ADVICE: Final[Mapping[str, str]] = {
    "Service": "remove it, and give the container's port a hostPort, or the pod hostNetwork: true: then the node's "
    "address leads there",
    **dict.fromkeys(("Endpoints", "EndpointSlice"), _NO_CONTROLLER),
    **dict.fromkeys(("Ingress", "IngressClass", "Gateway", "HTTPRoute"), _NO_ROUTES),
    "Namespace": "remove it: metadata.namespace in the pod is enough",
    **dict.fromkeys(("PersistentVolumeClaim", "PersistentVolume", "StorageClass"), _NO_CLAIMS),
    **dict.fromkeys(
        ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
        _NO_IDENTITY,
    ),
    "NetworkPolicy": "remove it: without a cluster's network nothing enforces it; use the machine's firewall",
    **dict.fromkeys(
        (
            *("HorizontalPodAutoscaler", "PodDisruptionBudget", "PriorityClass", "RuntimeClass", "LimitRange"),
            *("ResourceQuota", "CustomResourceDefinition", "Node", "Event", "PodTemplate"),
        ),
        _NO_CONTROLLER,
    ),
    "Kustomization": "render it first: `kubectl kustomize DIRECTORY` prints the objects",
}
_POD: Final = '"apiVersion: v1", "kind: Pod"'
COMPOSE: Final = "services"
"""The key that identifies a compose file."""


def is_compose_file(value: Mapping[str, object]) -> bool:
    """True if the value is a file for ``docker compose``."""
    return isinstance(value.get(COMPOSE), dict) and not {"kind", "apiVersion"} & value.keys()


COMPOSE_PROBLEM: Final = "this is a compose file, and a node runs pods"
COMPOSE_REMEDY: Final = (
    f"write each service as a pod: {_POD}, metadata.name, and under spec.containers its name, image, command, env, "
    "ports with a hostPort, and volumeMounts"
)


def unsupported_kind(value: Mapping[str, object], kinds: Sequence[str]) -> tuple[str, str]:
    """Return why the kind of a value is unsupported, because it is none of ``kinds``, with the remedy."""
    kind = str(value["kind"])
    known = {name.lower(): name for name in (*_TEMPLATES, *_ADVICE)}.get(kind.lower(), "")
    problem = f"Unsupported value: {shown(value['kind'])}: "
    if known in _TEMPLATES:
        return f"{problem}only a cluster makes pods of it", _as_a_pod(known, value)
    problem += f"must be {' or '.join(kinds)}"
    if known:
        return problem, _ADVICE[known]
    return problem, nearest(kind, kinds) or "remove it: a manifest can only have pods, ConfigMaps and Secrets"


def _as_a_pod(kind: str, value: Mapping[str, object]) -> str:
    """Return how to write a workload as a pod."""
    meta, spec, template = _object(value, "metadata"), _object(value, "spec"), _TEMPLATES[kind]
    name = meta.get("name")
    shown_name = name if isinstance(name, str) and name else "NAME"
    steps = [f'write the pod itself: {_POD}, "metadata: {{name: {shown_name}}}", and {template}.spec as its spec']
    replicas = spec.get("replicas")
    if type(replicas) is int and replicas > 1:
        steps.append(f"{replicas} replicas are as many pods, each with a name of its own")
    if spec.get("volumeClaimTemplates"):
        steps.append("mount a hostPath for each of its volumeClaimTemplates")
    if kind == "CronJob":
        steps.append("schedules are not supported: have cron or a systemd timer call `trikubelet run FILE`")
    return "; ".join(steps)


def _object(value: Mapping[str, object], key: str) -> Mapping[str, object]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}
