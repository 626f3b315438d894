"""The names that tie a pod to what the runtime and the disk hold of it: labels, annotations, log paths.

They are upstream's exactly: another kubelet, ``crictl`` and log collectors must find the agent's pods, and after a
restart these names are all it has. This is only spelling; ``dnsPolicy`` and the like are decided elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.model import k8s
from trikubelet.model.names import uid_problem
from trikubelet.model.objects import ObjectRef

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

POD_NAME = "io.kubernetes.pod.name"
POD_NAMESPACE = "io.kubernetes.pod.namespace"
POD_UID = "io.kubernetes.pod.uid"
CONTAINER_NAME = "io.kubernetes.container.name"

CONTAINER_HASH = "io.kubernetes.container.hash"
CONTAINER_RESTART_COUNT = "io.kubernetes.container.restartCount"
CONTAINER_TERMINATION_PATH = "io.kubernetes.container.terminationMessagePath"
CONTAINER_TERMINATION_POLICY = "io.kubernetes.container.terminationMessagePolicy"
CONTAINER_PRE_STOP = "io.kubernetes.container.preStopHandler"
CONTAINER_PORTS = "io.kubernetes.container.ports"
POD_TERMINATION_GRACE = "io.kubernetes.pod.terminationGracePeriod"
POD_DELETION_GRACE = "io.kubernetes.pod.deletionGracePeriod"

CONFIG_SOURCE = "kubernetes.io/config.source"
CONFIG_MIRROR = "kubernetes.io/config.mirror"
CONFIG_SEEN = "kubernetes.io/config.seen"
CONFIG_HASH = "kubernetes.io/config.hash"

API_SOURCE = "api"

CONTAINER = "container"
INIT_CONTAINER = "init_container"
EPHEMERAL_CONTAINER = "ephemeral_container"
SYSTEM_CRITICAL_PRIORITY = 2_000_000_000
CONTAINER_LINK_NAME_CHARS_MAX = 255


def full_name(pod: k8s.Pod) -> str:
    """Return ``name_namespace``, which must be unique among running static pods."""
    meta = pod.metadata
    return f"{meta.name}_{meta.namespace}"


def is_same_pod(pod: k8s.Pod, other: k8s.Pod) -> bool:
    """True if both have the same UID, namespace and name. The UID alone is not enough if a manifest gives it: the next
    manifest may give it to another pod, while the first still runs."""
    return pod.metadata.uid == other.metadata.uid and full_name(pod) == full_name(other)


def namespaced_name(pod: k8s.Pod) -> tuple[str, str]:
    """Return namespace and name; the API server has one pod of that pair at a time."""
    return (pod.metadata.namespace, pod.metadata.name)


def object_ref(pod: k8s.Pod, container: str = "") -> ObjectRef:
    """Return the reference for events and log lines. A ``container`` that the spec does not name counts as a regular
    one: only the runtime knows it."""
    meta, field = pod.metadata, "containers"
    if any(one.name == container for one in pod.spec.init_containers):
        field = "initContainers"
    elif any(one.name == container for one in pod.spec.ephemeral_containers):
        field = "ephemeralContainers"
    path = f"spec.{field}{{{container}}}" if container else ""
    return ObjectRef("Pod", meta.name, meta.namespace, meta.uid, path)


def source_of(pod: k8s.Pod) -> str:
    """Return the source of the pod: ``file``, ``http`` or ``api``."""
    return pod.metadata.annotations.get(CONFIG_SOURCE, API_SOURCE)


def is_static(pod: k8s.Pod) -> bool:
    """True if the pod came from a file or URL rather than from the API server."""
    return source_of(pod) != API_SOURCE


def is_mirror(pod: k8s.Pod) -> bool:
    """True if the pod is the API server's image of a static pod."""
    return CONFIG_MIRROR in pod.metadata.annotations


def status_uid(pod: k8s.Pod) -> str:
    """Return the UID of the pod on this node whose status an object of the API server shows: its own, or that of its
    static pod, which is the mirror's hash."""
    return pod.metadata.annotations.get(CONFIG_MIRROR, pod.metadata.uid)


def is_critical(pod: k8s.Pod) -> bool:
    """True if the node must not sacrifice the pod: static, mirror, or of system-critical priority."""
    return is_static(pod) or is_mirror(pod) or (pod.spec.priority or 0) >= SYSTEM_CRITICAL_PRIORITY


def all_containers(pod: k8s.Pod) -> tuple[k8s.Container, ...]:
    """Return init containers, then regular ones, as the spec lists them. Ephemeral ones have another type; see
    ``with_ephemeral`` for aspects that they share (security, logs, mounts)."""
    return (*pod.spec.init_containers, *pod.spec.containers)


def with_ephemeral(pod: k8s.Pod) -> tuple[k8s.Container, ...]:
    """Return all containers, the ephemeral ones last and converted to ordinary ones."""
    return (*all_containers(pod), *map(as_container, pod.spec.ephemeral_containers))


def as_container(ephemeral: k8s.EphemeralContainer) -> k8s.Container:
    """Return an ephemeral container as an ordinary one; its target must be read from the original."""
    shared = set(k8s.Container.__struct_fields__) & set(k8s.EphemeralContainer.__struct_fields__)
    return k8s.Container(**{name: getattr(ephemeral, name) for name in shared})


def container_kind(pod: k8s.Pod, name: str) -> str:
    """Return upstream's word for a container's kind in metrics; a sidecar is an init container."""
    if any(one.name == name for one in pod.spec.init_containers):
        return INIT_CONTAINER
    return CONTAINER if any(one.name == name for one in pod.spec.containers) else EPHEMERAL_CONTAINER


def pod_labels(pod: k8s.Pod) -> dict[str, str]:
    """Return a sandbox's labels: the pod's own and its identity."""
    meta = pod.metadata
    return {**meta.labels, POD_NAME: meta.name, POD_NAMESPACE: meta.namespace, POD_UID: meta.uid}


def container_labels(pod: k8s.Pod, container: str) -> dict[str, str]:
    """Return a container's labels: the pod's identity and the container's name."""
    meta = pod.metadata
    return {POD_NAME: meta.name, POD_NAMESPACE: meta.namespace, POD_UID: meta.uid, CONTAINER_NAME: container}


def uid_from_labels(labels: Mapping[str, str]) -> str:
    """Return the pod UID that a kubelet wrote; "" if there is none."""
    return labels.get(POD_UID, "")


def path_uid(uid: str) -> str:
    """Return the UID for use in a path. It may come from a manifest, an API server or a runtime's label, so it is
    checked to be a single path component. Raises ValueError."""
    if problem := uid_problem(uid):
        raise ValueError(f"{uid!r} is no UID: it {problem}")
    return uid


def pod_directory(pods: Path, uid: str) -> Path:
    """Return the pod's directory below that of all ``pods``. Raises ValueError."""
    return pods / path_uid(uid)


def log_directory_name(namespace: str, name: str, uid: str) -> str:
    """Return the name of the pod's directory under /var/log/pods."""
    return f"{namespace}_{name}_{uid}"


def uid_of_log_directory(directory: str) -> str:
    """Return the UID at the end of a pod log directory's name. Neither namespaces nor names of pods have an
    underscore."""
    return directory.split("_", 2)[-1]


ATTEMPT_DIGITS_MAX: Final = 9
"""The limit for the attempt in a log's name: the CRI has 32 bits for it, the API's restart count 31. A container with
its logs mounted can create any name there, and the next attempt is one more."""

LOGGED_ATTEMPTS_MAX: Final = 100
"""The newest attempts of a container that are derived from its logs. Only the last two are needed to start or show one;
the removal of older ones looks again afterwards."""


def log_path(container: str, attempt: int) -> str:
    """Return a container's log file, relative to its pod's log directory."""
    return f"{container}/{attempt}.log"


def log_link_name(pod: k8s.Pod, container: str, container_id: str) -> str:
    """Return the legacy link under /var/log/containers. The part before the id is cut so that the whole fits a file
    name."""
    meta = pod.metadata
    ending = f"-{container_id}.log"
    return f"{meta.name}_{meta.namespace}_{container}"[: CONTAINER_LINK_NAME_CHARS_MAX - len(ending)] + ending


def orphan_pod(uid: str, name: str, namespace: str) -> k8s.Pod:
    """Return a pod made from a runtime's labels, so that an unwanted one can be stopped like any other pod."""
    annotations = {CONFIG_SOURCE: "runtime"}
    meta = k8s.ObjectMeta(name=name, namespace=namespace, uid=uid, annotations=annotations)
    return k8s.Pod(metadata=meta, spec=k8s.PodSpec(containers=()))
