"""Fields of a pod that this agent does not honour yet, in one table.

A pod that uses one gets an event and a log line naming the field's path; it runs without it, or its container fails
with a clear message, as each row says. Nothing is dropped in silence: a test walks every field of the pod's type and
wants it here or in the list of those that work. When a field starts to work its row goes away.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from trikubelet.core.containers.resources import HUGE_PAGES
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROBES = "probes are not run yet: the container counts as ready and alive while it runs"
HOOKS = "lifecycle hooks are not run yet: the container starts and stops without it"
OBJECTS = "ConfigMaps and Secrets have no source yet: an optional one counts as missing, any other fails the container"
VOLUME = "volumes of this type are not supported yet: the pod waits; emptyDir and hostPath are supported"
WINDOWS = "it has a meaning on Windows only"
LABELS = "it is not compared with this node's labels"
SUPPORTED_VOLUMES = frozenset({"name", "emptyDir", "hostPath"})
CLASSIC_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
_CONTAINERS = "containers"  # as a path's first part: every list of containers


class Unsupported(NamedTuple):
    """A field path and what its use means."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Row:
    """``path`` below ``spec`` in the API's names, ``[]`` for each of a list; ``when`` says which values count."""

    path: str
    why: str
    when: Callable[[Any], bool] = bool


def _is_present(value: object) -> bool:
    return value is not None


def _is_huge(medium: str) -> bool:
    return medium.startswith("HugePages")


def _limits_a_disk(volume: k8s.EmptyDirVolumeSource | None) -> bool:
    return volume is not None and volume.size_limit is not None and not volume.medium


def _is_no_linux(name: str) -> bool:
    return name not in ("", "linux")


def _has_devices(amounts: dict[str, k8s.Quantity]) -> bool:
    return any(name not in CLASSIC_RESOURCES and not name.startswith(HUGE_PAGES) for name in amounts)


def _limits_scratch_space(amounts: dict[str, k8s.Quantity]) -> bool:
    return "ephemeral-storage" in amounts


def _restarts_to_resize(policy: str) -> bool:
    return policy == "RestartContainer"


def _mounts_with_label(policy: str) -> bool:
    return policy == "MountOption"


ROWS = (
    Row("containers[].livenessProbe", PROBES, _is_present),
    Row("containers[].readinessProbe", PROBES, _is_present),
    Row("containers[].startupProbe", PROBES, _is_present),
    Row("containers[].lifecycle.postStart", HOOKS, _is_present),
    Row("containers[].lifecycle.preStop", HOOKS, _is_present),
    Row("containers[].envFrom[].configMapRef", OBJECTS, _is_present),
    Row("containers[].envFrom[].secretRef", OBJECTS, _is_present),
    Row("containers[].env[].valueFrom.configMapKeyRef", OBJECTS, _is_present),
    Row("containers[].env[].valueFrom.secretKeyRef", OBJECTS, _is_present),
    Row("containers[].env[].valueFrom.fileKeyRef", "files of variables are not read yet", _is_present),
    Row("containers[].volumeMounts[].subPath", "sub-paths are not supported yet: the container fails"),
    Row("containers[].volumeMounts[].subPathExpr", "sub-paths are not supported yet: the container fails"),
    Row("containers[].volumeDevices", "block devices are not supported yet: the container fails"),
    Row("containers[].resources.claims", "claims are not prepared yet: the container runs without the devices"),
    Row("containers[].resources.limits", "devices are not given out yet: the container runs without", _has_devices),
    Row("containers[].resources.limits", "scratch space is not limited yet: nothing is evicted", _limits_scratch_space),
    Row(
        "containers[].resizePolicy[].restartPolicy",
        "containers are not resized yet: new amounts count from their next start",
        _restarts_to_resize,
    ),
    Row("containers[].securityContext.windowsOptions", WINDOWS, _is_present),
    Row("ephemeralContainers[].targetContainerName", "the target's processes are not shared yet: it sees its own only"),
    *(
        Row(f"volumes[].{field.encode_name}", VOLUME, _is_present)
        for field in msgspec.structs.fields(k8s.Volume)
        if field.encode_name not in SUPPORTED_VOLUMES
    ),
    Row("volumes[].emptyDir.medium", "huge pages are not supported yet: the pod waits", _is_huge),
    Row("volumes[].emptyDir", "sizeLimit is not enforced on a disk yet: nothing is evicted", _limits_a_disk),
    Row(
        "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
        LABELS,
        _is_present,
    ),
    Row("hostUsers", "user namespaces are not set up yet: the pod is refused", lambda value: value is False),
    Row("imagePullSecrets", "images are pulled without credentials"),
    Row("nodeSelector", LABELS),
    Row("os.name", "this node runs Linux: the pod is started all the same", _is_no_linux),
    Row("resourceClaims", "claims are not prepared yet"),
    Row("resources.claims", "claims are not prepared yet"),
    Row("runtimeClassName", "the class is not looked up: its name is taken for the runtime handler's"),
    Row("securityContext.seLinuxChangePolicy", "volumes are relabelled file by file", _mounts_with_label),
    Row("securityContext.windowsOptions", WINDOWS, _is_present),
)


def unsupported_fields(pod: k8s.Pod) -> tuple[Unsupported, ...]:
    """Every field the pod sets that has no effect here, or not all of it, in the table's order."""
    found = []
    for row in ROWS:
        first, *rest = row.path.split(".")
        for start in _starts(first):
            values = _values(pod.spec, [start, *rest], "spec")
            found += [Unsupported(path, row.why) for path, value in values if row.when(value)]
    return tuple(found)


def _starts(first: str) -> tuple[str, ...]:
    if first != f"{_CONTAINERS}[]":
        return (first,)
    return ("initContainers[]", "containers[]", "ephemeralContainers[]")


def _values(record: msgspec.Struct, parts: list[str], where: str) -> Iterator[tuple[str, object]]:
    """Each value the path leads to, with its own path; none where something on the way is not set."""
    name = parts[0].removesuffix("[]")
    value = getattr(record, attributes(type(record))[name])
    reached = [(f"{where}.{name}", value)]
    if parts[0].endswith("[]"):
        reached = [(f"{where}.{name}[{index}]", item) for index, item in enumerate(value)]
    for path, item in reached:
        if len(parts) == 1:
            yield path, item
        elif item is not None:
            yield from _values(item, parts[1:], path)


@cache
def attributes(record: type[msgspec.Struct]) -> dict[str, str]:
    """A type's attributes by their API names."""
    return {field.encode_name: field.name for field in msgspec.structs.fields(record)}
