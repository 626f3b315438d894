"""Fields of a pod that this agent does not honour yet.

A pod that uses one gets an event and a log line naming the field path; it runs without it, or its container fails with
a clear message, as each entry says. Nothing is dropped in silence. When a field starts to work its row goes away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trikubelet.core.names import all_containers

if TYPE_CHECKING:
    from trikubelet.model.k8s import Container, Pod

PROBES = "probes are not run yet: the container counts as ready and alive while it runs"
HOOKS = "lifecycle hooks are not run yet"
SUPPORTED_VOLUMES = frozenset({"name", "empty_dir", "host_path"})

_POD_FIELDS = {
    "active_deadline_seconds": ("activeDeadlineSeconds", "the deadline is not enforced yet"),
    "overhead": ("overhead", "it is not added to the pod's cgroup yet"),
    "resource_claims": ("resourceClaims", "claims are not prepared yet"),
    "image_pull_secrets": ("imagePullSecrets", "images are pulled without credentials"),
    "host_users": ("hostUsers", "user namespaces are not used yet"),
}


class Unsupported(NamedTuple):
    """A field path and what its use means."""

    path: str
    why: str


def unsupported_fields(pod: Pod) -> tuple[Unsupported, ...]:
    """Every field the pod sets that has no effect here."""
    found = []
    for attribute, (name, why) in _POD_FIELDS.items():
        value = getattr(pod.spec, attribute)
        if value and not (attribute == "host_users" and value is True):
            found.append(Unsupported(f"spec.{name}", why))
    if pod.spec.host_users is False:
        found.append(Unsupported("spec.hostUsers", "user namespaces are not used yet"))
    for index, volume in enumerate(pod.spec.volumes):
        used = [name for name in volume.__struct_fields__ if getattr(volume, name)]
        strange = [name for name in used if name not in SUPPORTED_VOLUMES]
        found += [
            Unsupported(f"spec.volumes[{index}]", f"volumes of type {name} are not supported yet") for name in strange
        ]
    regular = len(pod.spec.init_containers)
    for index, container in enumerate(all_containers(pod)):
        where = f"initContainers[{index}]" if index < regular else f"containers[{index - regular}]"
        found += _of_container(f"spec.{where}", container)
    return tuple(found)


def _of_container(where: str, container: Container) -> list[Unsupported]:
    found = [
        Unsupported(f"{where}.{name}", PROBES)
        for name, probe in (
            ("livenessProbe", container.liveness_probe),
            ("readinessProbe", container.readiness_probe),
            ("startupProbe", container.startup_probe),
        )
        if probe is not None
    ]
    if container.lifecycle is not None:
        hooks = (("postStart", container.lifecycle.post_start), ("preStop", container.lifecycle.pre_stop))
        found += [Unsupported(f"{where}.lifecycle.{name}", HOOKS) for name, hook in hooks if hook is not None]
        if container.lifecycle.stop_signal:
            found.append(Unsupported(f"{where}.lifecycle.stopSignal", "the image's stop signal is used"))
    if container.volume_devices:
        found.append(Unsupported(f"{where}.volumeDevices", "block devices are not supported yet"))
    return found
