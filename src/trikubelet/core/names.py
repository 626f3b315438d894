"""The names that tie a pod to what the runtime and the disk hold of it: labels, annotations, log paths.

They are upstream's to the letter: another kubelet, ``crictl`` and log collectors must find what we made, and after a
restart these names are all we have. ``dnsPolicy`` and friends are decided elsewhere; this is only spelling.
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
    """``name_namespace``: what two static pods must not share while both run."""
    meta = pod.metadata
    return f"{meta.name}_{meta.namespace}"


def is_same_pod(pod: k8s.Pod, other: k8s.Pod) -> bool:
    """Whether both are of one UID, namespace and name. A UID alone does not tell where a manifest gives it: the next
    manifest may give it to another pod, and what runs under it stays what it is."""
    return pod.metadata.uid == other.metadata.uid and full_name(pod) == full_name(other)


def namespaced_name(pod: k8s.Pod) -> tuple[str, str]:
    """Namespace and name: the API server has one pod of it at a time."""
    return (pod.metadata.namespace, pod.metadata.name)


def object_ref(pod: k8s.Pod, container: str = "") -> ObjectRef:
    """The reference that events and log lines use. A ``container`` that the spec does not name counts as a regular
    one: the runtime alone knows it."""
    meta, field = pod.metadata, "containers"
    if any(one.name == container for one in pod.spec.init_containers):
        field = "initContainers"
    elif any(one.name == container for one in pod.spec.ephemeral_containers):
        field = "ephemeralContainers"
    path = f"spec.{field}{{{container}}}" if container else ""
    return ObjectRef("Pod", meta.name, meta.namespace, meta.uid, path)


def source_of(pod: k8s.Pod) -> str:
    """The source that brought the pod: ``file``, ``http`` or ``api``."""
    return pod.metadata.annotations.get(CONFIG_SOURCE, API_SOURCE)


def is_static(pod: k8s.Pod) -> bool:
    """Whether the pod came from a file or URL rather than from the API server."""
    return source_of(pod) != API_SOURCE


def is_mirror(pod: k8s.Pod) -> bool:
    """Whether the pod is the API server's picture of a static pod."""
    return CONFIG_MIRROR in pod.metadata.annotations


def status_uid(pod: k8s.Pod) -> str:
    """The UID of the pod on this node whose status an object of the API server shows: its own, or that of the static
    pod it mirrors, which stands in its hash."""
    return pod.metadata.annotations.get(CONFIG_MIRROR, pod.metadata.uid)


def is_critical(pod: k8s.Pod) -> bool:
    """Whether the node must not sacrifice the pod: static, mirror, or of system-critical priority."""
    return is_static(pod) or is_mirror(pod) or (pod.spec.priority or 0) >= SYSTEM_CRITICAL_PRIORITY


def all_containers(pod: k8s.Pod) -> tuple[k8s.Container, ...]:
    """Init containers, then regular ones, as the spec lists them. Ephemeral ones are another type: for what those have
    as well (security, logs, mounts) ``with_ephemeral``."""
    return (*pod.spec.init_containers, *pod.spec.containers)


def with_ephemeral(pod: k8s.Pod) -> tuple[k8s.Container, ...]:
    """The same, and then the ephemeral ones as ordinary ones."""
    return (*all_containers(pod), *map(as_container, pod.spec.ephemeral_containers))


def as_container(ephemeral: k8s.EphemeralContainer) -> k8s.Container:
    """An ephemeral container as an ordinary one; what it has more (its target) is read from the original."""
    shared = set(k8s.Container.__struct_fields__) & set(k8s.EphemeralContainer.__struct_fields__)
    return k8s.Container(**{name: getattr(ephemeral, name) for name in shared})


def container_kind(pod: k8s.Pod, name: str) -> str:
    """Upstream's word for what a container is to its pod, as metrics have it; a sidecar is an init container."""
    if any(one.name == name for one in pod.spec.init_containers):
        return INIT_CONTAINER
    return CONTAINER if any(one.name == name for one in pod.spec.containers) else EPHEMERAL_CONTAINER


def pod_labels(pod: k8s.Pod) -> dict[str, str]:
    """A sandbox's labels: the pod's own and who it is."""
    meta = pod.metadata
    return {**meta.labels, POD_NAME: meta.name, POD_NAMESPACE: meta.namespace, POD_UID: meta.uid}


def container_labels(pod: k8s.Pod, container: str) -> dict[str, str]:
    """A container's labels: whose it is, and which."""
    meta = pod.metadata
    return {POD_NAME: meta.name, POD_NAMESPACE: meta.namespace, POD_UID: meta.uid, CONTAINER_NAME: container}


def uid_from_labels(labels: Mapping[str, str]) -> str:
    """The pod UID a kubelet wrote, or empty."""
    return labels.get(POD_UID, "")


def path_uid(uid: str) -> str:
    """The UID, as a part of a path. Whoever made it up (a manifest, an API server, a label of the runtime's), it is one
    name and leads nowhere else. Raises ValueError."""
    if problem := uid_problem(uid):
        raise ValueError(f"{uid!r} is no UID: it {problem}")
    return uid


def pod_directory(pods: Path, uid: str) -> Path:
    """The pod's directory below that of all ``pods``. Raises ValueError."""
    return pods / path_uid(uid)


def log_directory_name(namespace: str, name: str, uid: str) -> str:
    """The pod's directory under /var/log/pods."""
    return f"{namespace}_{name}_{uid}"


def uid_of_log_directory(directory: str) -> str:
    """The UID at the end of a pod log directory's name. Neither namespaces nor names of pods have an underscore."""
    return directory.split("_", 2)[-1]


ATTEMPT_DIGITS_MAX: Final = 9
"""Of an attempt that a log's name may say: the CRI has 32 bits for it, the API's restart count 31. A container that has
its logs mounted can leave any name there, and the next attempt is one more."""

LOGGED_ATTEMPTS_MAX: Final = 100
"""Attempts of a container that are told by its logs, the newest: whoever starts or shows one asks for the last two. Who
removes older ones asks again when those are gone."""


def log_path(container: str, attempt: int) -> str:
    """A container's log file, relative to its pod's log directory."""
    return f"{container}/{attempt}.log"


def log_link_name(pod: k8s.Pod, container: str, container_id: str) -> str:
    """The legacy link under /var/log/containers. The name before the id is cut so that the whole fits a file name."""
    meta = pod.metadata
    ending = f"-{container_id}.log"
    return f"{meta.name}_{meta.namespace}_{container}"[: CONTAINER_LINK_NAME_CHARS_MAX - len(ending)] + ending


def orphan_pod(uid: str, name: str, namespace: str) -> k8s.Pod:
    """A pod made from what a runtime's labels say, so that something unwanted can be stopped like any other pod."""
    annotations = {CONFIG_SOURCE: "runtime"}
    meta = k8s.ObjectMeta(name=name, namespace=namespace, uid=uid, annotations=annotations)
    return k8s.Pod(metadata=meta, spec=k8s.PodSpec(containers=()))
