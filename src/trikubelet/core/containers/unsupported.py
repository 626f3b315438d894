"""Fields of a pod that this agent does not honour yet, in one table.

A pod that uses one gets an event and a log line naming the field's path; it runs without it, or its container fails
with a clear message, as each row says. Nothing is dropped in silence: every field of the API is here or in
``core.support.pods``, which says what works. When a field starts to work its row goes away. Fields that only the
embedded runtime ignores are in ``embedded``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from trikubelet.core.containers.profiles import SECCOMP_ANNOTATION, SECCOMP_POD_ANNOTATION
from trikubelet.core.names import all_containers
from trikubelet.core.support.field import Row
from trikubelet.model import k8s
from trikubelet.model.api_names import attributes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TCP_HOOKS = "hooks do not open connections, here or elsewhere: it fails"
VOLUME = "volumes of this type are not supported yet"
MOVED = "CSI drivers have taken these volumes over, and their old name is not translated"
GONE = "no kubelet mounts volumes of this type any more"

SECCOMP_FIELD = "it has no effect any more, here or elsewhere: securityContext.seccompProfile has"
WINDOWS = "it has a meaning on Windows only"
SUPPORTED_VOLUMES = frozenset(
    {
        *("name", "emptyDir", "hostPath", "configMap", "secret", "downwardAPI", "projected"),
        *("persistentVolumeClaim", "ephemeral", "nfs", "image", "csi"),
    }
)
_MOVED_VOLUMES = frozenset(
    {
        *("awsElasticBlockStore", "azureDisk", "azureFile", "cinder", "gcePersistentDisk", "portworxVolume"),
        "vsphereVolume",
    }
)
_GONE_VOLUMES = frozenset(
    {
        *("cephfs", "flocker", "gitRepo", "glusterfs", "photonPersistentDisk", "quobyte", "rbd", "scaleIO"),
        "storageos",
    }
)
CLASSIC_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
_CONTAINERS = "containers"  # as a path's first part: every list of containers


class Unsupported(NamedTuple):
    """A field path and what its use means."""

    path: str
    why: str


def _is_present(value: object) -> bool:
    return value is not None


def _mounts_with_label(policy: str) -> bool:
    return policy == "MountOption"


def _is_http2(protocol: str) -> bool:
    return protocol == "HTTP2"


def _is_tls(mode: str) -> bool:
    return mode == "TLS"


def _alpha(gate: str, instead: str) -> str:
    """Return the reason for a field whose feature gate is alpha in the followed release, and has no effect here."""
    return f"the feature {gate} is alpha and not built: {instead}"


def _why_not(volume: str) -> str:
    """Return the reason for volumes of a type that is not set up here. (which upstream still has: pkg/volume of
    v1.36)"""
    return MOVED if volume in _MOVED_VOLUMES else GONE if volume in _GONE_VOLUMES else VOLUME


def why_not_mounted(volume: k8s.Volume) -> str:
    """Return why a volume of an unknown type is not set up, in the words in which its field is reported."""
    fields = ((name, attribute) for name, attribute in attributes(k8s.Volume).items() if name not in SUPPORTED_VOLUMES)
    present = (name for name, attribute in fields if getattr(volume, attribute) is not None)
    return _why_not(next(present, ""))


_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("lifecycle.postStart", "lifecycle.preStop")

ROWS = (
    Row("containers[].lifecycle.postStart.tcpSocket", TCP_HOOKS, _is_present),
    Row("containers[].lifecycle.preStop.tcpSocket", TCP_HOOKS, _is_present),
    *(
        Row(f"containers[].{where}.httpGet.protocol", _alpha("H2CContainerProbe", "HTTP/1.1 is spoken"), _is_http2)
        for where in (*_PROBES, *_HOOKS)
    ),
    *(
        Row(f"containers[].{probe}.grpc.mode", _alpha("GRPCContainerProbeTLS", "TLS is not spoken"), _is_tls)
        for probe in _PROBES
    ),
    Row(
        "containers[].volumeMounts[].bindMountOptions",
        _alpha("VolumeBindMountOptions", "the volume is mounted without them"),
    ),
    Row("containers[].resources.claims", "claims are not prepared yet: the container runs without the devices"),
    Row("containers[].securityContext.windowsOptions", WINDOWS, _is_present),
    *(
        Row(f"volumes[].{name}", f"{_why_not(name)}: the pod waits", _is_present)
        for name in attributes(k8s.Volume)
        if name not in SUPPORTED_VOLUMES
    ),
    Row(
        "volumes[].emptyDir.mode",
        _alpha("EmptyDirVolumeMode", "the directory has the mode that it has without the field"),
        _is_present,
    ),
    Row("resourceClaims", "claims are not prepared yet"),
    Row("resources.claims", "claims are not prepared yet"),
    Row("securityContext.seLinuxChangePolicy", "volumes are relabelled file by file all the same", _mounts_with_label),
    Row("securityContext.windowsOptions", WINDOWS, _is_present),
)


def unsupported_fields(pod: k8s.Pod) -> tuple[Unsupported, ...]:
    """Every field the pod sets that has no effect here, or not all of it, in the table's order; annotations last."""
    return (*named_by(ROWS, pod), *_annotations(pod))


def named_by(rows: Iterable[Row], pod: k8s.Pod) -> Iterator[Unsupported]:
    """Every field the pod sets that one of the rows is about, in their order."""
    for row in rows:
        first, *rest = row.path.split(".")
        for start in _starts(first):
            for path, value, holder in _values(pod.spec, [start, *rest], "spec"):
                if row.within(holder) and row.when(value):
                    yield Unsupported(path, row.why)


def _annotations(pod: k8s.Pod) -> Iterator[Unsupported]:
    """Annotations that were fields once, where the field that took their place does not stand beside them."""
    contexts: dict[str, k8s.PodSecurityContext | k8s.SecurityContext | None]
    contexts = {SECCOMP_POD_ANNOTATION: pod.spec.security_context}
    contexts |= {
        f"{SECCOMP_ANNOTATION}{container.name}": container.security_context for container in all_containers(pod)
    }
    for key in pod.metadata.annotations:
        if key == SECCOMP_POD_ANNOTATION or key.startswith(SECCOMP_ANNOTATION):
            context = contexts.get(key)
            if context is None or context.seccomp_profile is None:
                yield Unsupported(f"metadata.annotations[{key}]", SECCOMP_FIELD)


def _starts(first: str) -> tuple[str, ...]:
    if first != f"{_CONTAINERS}[]":
        return (first,)
    return ("initContainers[]", "containers[]", "ephemeralContainers[]")


def _values(record: msgspec.Struct, parts: list[str], where: str) -> Iterator[tuple[str, object, msgspec.Struct]]:
    """Each value the path leads to, and each key of a map, with its own path and the record it stands in; none where
    something on the way is not set."""
    name = parts[0].removesuffix("[]")
    value = getattr(record, attributes(type(record))[name])
    reached = [(f"{where}.{name}", value)]
    if isinstance(value, dict):
        reached = [(f"{where}.{name}[{key}]", key) for key in value]
    elif parts[0].endswith("[]"):
        reached = [(f"{where}.{name}[{index}]", item) for index, item in enumerate(value)]
    for path, item in reached:
        if len(parts) == 1:
            yield path, item, record
        elif item is not None:
            yield from _values(item, parts[1:], path)
