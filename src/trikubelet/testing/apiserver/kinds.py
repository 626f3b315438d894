"""An API server's rules for each kind of object: defaulting, mutability, and deletion.

Pure: an object as a tree of JSON in, one out. The merge keys are the patch tags of upstream's types. It has only what a
node agent needs, without a cluster's controllers and admission plugins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from trikubelet.core.manifest.defaults import with_defaults
from trikubelet.core.qos import qos_class
from trikubelet.core.timestamps import SECOND_NS, parse_rfc3339, rfc3339
from trikubelet.model import k8s
from trikubelet.model.api import Resource
from trikubelet.model.api_errors import Invalid, Refused
from trikubelet.testing.apiserver.pod_statuses import check_status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.testing.apiserver.patches import Tree

_ANY_FIELDS: Final = frozenset({"metadata.name", "metadata.namespace"})
_META_KEYS: Final = {"metadata.ownerReferences": "uid", "metadata.finalizers": ""}
_CONTAINER_KEYS: Final = {
    "ports": "containerPort",
    "env": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
}
_POD_KEYS: Final = {
    "spec.volumes": "name",
    "spec.imagePullSecrets": "name",
    "spec.hostAliases": "ip",
    "spec.topologySpreadConstraints": "topologyKey",
    "spec.schedulingGates": "name",
    "spec.resourceClaims": "name",
    "status.conditions": "type",
    "status.hostIPs": "ip",
    "status.podIPs": "ip",
    "status.resourceClaimStatuses": "name",
} | {
    path: key
    for group in ("spec.containers", "spec.initContainers", "spec.ephemeralContainers")
    for path, key in {group: "name", **{f"{group}.{name}": key for name, key in _CONTAINER_KEYS.items()}}.items()
}
_NODE_KEYS: Final = {"spec.podCIDRs": "", "status.conditions": "type", "status.addresses": "type"}
_CONTAINER_STATUSES: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
EPHEMERAL: Final = "ephemeralcontainers"
"""The subresource of pods that only adds ephemeral containers."""
_EPHEMERAL_LIST: Final = "ephemeralContainers"
_MUTABLE_OF_PODS: Final = frozenset({"activeDeadlineSeconds", "tolerations", "nodeName", "schedulingGates"})


@dataclass(frozen=True, slots=True)
class Kind:
    """The rules of one kind. ``merged``: the lists that strategic merge patches merge, and their merge keys.
    ``fields``: its field selectors. ``subresources``: those that write a part of it (``written``). ``needs_version``: a
    replacement must have the version it replaces. ``put_creates``: a PUT of a missing object creates it."""

    merged: Mapping[str, str] = field(default_factory=lambda: _META_KEYS)
    fields: frozenset[str] = _ANY_FIELDS
    subresources: frozenset[str] = frozenset()
    has_generation: bool = False
    ends_gracefully: bool = False
    needs_version: bool = False
    put_creates: bool = False


_KINDS: Final[Mapping[str, Kind]] = {
    "pods": Kind(
        merged=_META_KEYS | _POD_KEYS,
        fields=_ANY_FIELDS
        | {
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        },
        subresources=frozenset({"status", EPHEMERAL}),
        has_generation=True,
        ends_gracefully=True,
    ),
    "nodes": Kind(
        merged=_META_KEYS | _NODE_KEYS,
        fields=_ANY_FIELDS | {"spec.unschedulable"},
        subresources=frozenset({"status"}),
    ),
    "services": Kind(
        merged=_META_KEYS | {"spec.ports": "port", "status.conditions": "type"},
        fields=_ANY_FIELDS | {"spec.clusterIP", "spec.type"},
        subresources=frozenset({"status"}),
    ),
    "persistentvolumeclaims": Kind(subresources=frozenset({"status"})),
    "secrets": Kind(fields=_ANY_FIELDS | {"type"}),
    "events": Kind(
        fields=_ANY_FIELDS
        | {f"involvedObject.{name}" for name in ("kind", "namespace", "name", "uid", "fieldPath")}
        | {"reason", "type", "source"},
        put_creates=True,
    ),
    "leases": Kind(needs_version=True, put_creates=True),
    "podcertificaterequests": Kind(
        fields=_ANY_FIELDS | {"spec.nodeName", "spec.signerName"}, subresources=frozenset({"status"})
    ),
    "certificatesigningrequests": Kind(
        fields=_ANY_FIELDS | {"spec.signerName"}, subresources=frozenset({"status", "approval"})
    ),
}
_PLAIN: Final = Kind()


def kind_of(resource: Resource) -> Kind:
    """The rules of a resource."""
    return _KINDS.get(resource.plural, _PLAIN)


def new_object(resource: Resource, body: Tree) -> Tree:
    """A new object's spec and status as the server stores them. Raises Invalid, and Refused for one that is not of its
    type."""
    if resource.plural == "pods":
        return _new_pod(body)
    if resource.plural == "certificatesigningrequests":
        return body | {"status": {}}
    return filled_in(resource, body)


def _new_pod(body: Tree) -> Tree:
    pod = with_defaults(_typed_pod(body))
    if not pod.spec.containers:
        raise Invalid(
            f'Pod "{pod.metadata.name}" is invalid: spec.containers: Required value', fields=("spec.containers",)
        )
    tree: Tree = msgspec.to_builtins(pod)
    return tree | {"status": {"phase": "Pending", "qosClass": qos_class(pod)}}


def _typed_pod(body: Tree) -> k8s.Pod:
    try:
        return msgspec.convert(body, k8s.Pod)
    except msgspec.ValidationError as error:
        raise Refused(f'Pod in version "v1" cannot be handled as a Pod: {error}', "BadRequest") from error


def filled_in(resource: Resource, new: Tree) -> Tree:
    """The object as it is stored: missing parts of a container's status are filled in empty, and so is a node's
    port."""
    if resource.plural == "nodes":
        endpoints: Tree = {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}}
        return new | {"status": endpoints | new.get("status", {})}
    if resource.plural != "pods":
        return new
    status = new.get("status", {})
    blank: Tree = {"state": {}, "lastState": {}}
    lists = {name: [blank | one for one in status[name]] for name in _CONTAINER_STATUSES if name in status}
    return new | {"status": status | lists}


def written(subresource: str, old: Tree, new: Tree) -> Tree:
    """The object once a subresource was written: the new one's other fields are ignored, and a QoS class that is left
    out stays. Raises Invalid where an ephemeral container is changed or removed, Refused for one that is not of its
    type."""
    if subresource != EPHEMERAL:
        parts = {name: new[name] for name in ("metadata", "status") if name in new}
        if "status" in parts and "qosClass" in old.get("status", {}):
            parts["status"] = {"qosClass": old["status"]["qosClass"]} | parts["status"]
        return old | parts
    before, asked = ({one["name"]: one for one in tree["spec"].get(_EPHEMERAL_LIST, ())} for tree in (old, new))
    if lost := next((name for name, one in before.items() if asked.get(name) != one), None):
        what = "changed" if lost in asked else "removed"
        raise Invalid(
            f'Pod "{old["metadata"]["name"]}" is invalid: spec.{_EPHEMERAL_LIST}: Forbidden: existing ephemeral '
            f'containers "{lost}" may not be {what}',
            fields=(f"spec.{_EPHEMERAL_LIST}",),
        )
    spec = old["spec"] | {_EPHEMERAL_LIST: new["spec"].get(_EPHEMERAL_LIST, [])}
    pod = with_defaults(_typed_pod(old | {"spec": spec}))
    return old | {"metadata": dict(old["metadata"]), "spec": msgspec.to_builtins(pod.spec)}


def check_update(resource: Resource, old: Tree, new: Tree) -> None:
    """Raises Invalid where the update changes an immutable field, or a pod's status as it may not change."""
    if resource.plural != "pods":
        return
    pod = _typed_pod(new)
    spec = new.get("spec", {})
    if _fixed(old["spec"]) != _fixed(spec) or (old["spec"].get("nodeName") not in (None, spec.get("nodeName"))):
        name = old["metadata"]["name"]
        raise Invalid(f'Pod "{name}" is invalid: spec: Forbidden: pod updates may not change it', fields=("spec",))
    check_status(pod, old.get("status", {}), new.get("status", {}))


def _fixed(spec: Tree) -> Tree:
    """The immutable part of a pod's spec: everything but images and the few members upstream lets change."""
    left = {name: value for name, value in spec.items() if name not in _MUTABLE_OF_PODS}
    for group in ("containers", "initContainers", "ephemeralContainers"):
        if group in left:
            left[group] = [{k: v for k, v in container.items() if k != "image"} for container in left[group]]
    return left


def ending(pod: Tree, grace_seconds: int | None, now_ns: int) -> Tree | None:
    """The pod once its deletion was requested, None when it is removed at once. A deletion under way may only be
    shortened; with a longer grace period, or none given, the pod stays as it is."""
    meta, spec = pod["metadata"], pod["spec"]
    under_way: int | None = meta.get("deletionGracePeriodSeconds")
    if under_way is not None:
        if grace_seconds is None or grace_seconds >= under_way:
            return pod
        ends_ns = parse_rfc3339(meta["deletionTimestamp"]) + (grace_seconds - under_way) * SECOND_NS
        return _doomed(pod, grace_seconds, ends_ns) if grace_seconds else None
    grace = spec["terminationGracePeriodSeconds"] if grace_seconds is None else grace_seconds
    if not spec.get("nodeName") or pod["status"].get("phase") in ("Succeeded", "Failed"):
        return None
    grace = grace if grace >= 0 else 1
    if grace == 0:
        return None
    doomed = _doomed(pod, grace, now_ns + grace * SECOND_NS)
    doomed["metadata"]["generation"] = meta["generation"] + 1
    return doomed


def _doomed(pod: Tree, grace: int, ends_ns: int) -> Tree:
    changes: dict[str, Any] = {"deletionGracePeriodSeconds": grace, "deletionTimestamp": rfc3339(ends_ns)}
    return pod | {"metadata": pod["metadata"] | changes}


def held_back(tree: Tree, now_ns: int) -> Tree:
    """Return an object that would be removed but for its finalizers."""
    kept = {"deletionTimestamp": tree["metadata"].get("deletionTimestamp") or rfc3339(now_ns)}
    return tree | {"metadata": tree["metadata"] | kept | {"deletionGracePeriodSeconds": 0}}


def is_over(tree: Tree) -> bool:
    """True if the object is deleted and has no finalizers any more."""
    meta = tree["metadata"]
    return meta.get("deletionGracePeriodSeconds") == 0 and not meta.get("finalizers")
