"""Fields of a pod that the embedded runtime ignores: it sets no limits, and its network is the machine's.

A pod runs without them, unlike those that it rejects (``trikubelet.embedded.spec``). The user gets a warning with the
field's path, as for fields that no runtime supports (``unsupported``). Defaults that are not requested have no row: the
names of the machine's resolv.conf, a default's masked paths. When the runtime supports a field, its row is removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.containers.profiles import APPARMOR_ANNOTATION, RUNTIME_DEFAULT
from trikubelet.core.containers.resources import HUGE_PAGES
from trikubelet.core.containers.unsupported import Unsupported, named_by
from trikubelet.core.names import all_containers
from trikubelet.core.support.field import Row

if TYPE_CHECKING:
    from trikubelet.model import k8s

_UNLIMITED: Final = "it is not enforced: all of the machine's resources may be used"
_UNCONFINED: Final = "no profile is loaded: the container runs unconfined"
_SHARED_PORT: Final = "the network is the machine's: the container's own port is to be used"
_SHARED_ADDRESS: Final = "the network is the machine's: the port is open where the container listens"
_NO_LABEL: Final = "its processes have the agent's label"
_MACHINES_NAMES: Final = "names are looked up by the machine's own resolv.conf"
_NO_SHARE: Final = "it counts when the pod is admitted, and ensures no share of the processors"
_SHARED_MEMORY: Final = "only root may limit volumes in memory: all of the user's tmpfs may be used"
_EVERYWHERE: Final = ("", "0.0.0.0", "::")  # noqa: S104 - for comparing a port's address


def _is_bounded_by_cgroups(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith(HUGE_PAGES)


def _is_processors(resource: str) -> bool:
    return resource == "cpu"


def _is_default_profile(type_: str) -> bool:
    return type_ == RUNTIME_DEFAULT


def _is_an_address(host_ip: str) -> bool:
    return host_ip not in _EVERYWHERE


def _is_published_elsewhere(port: k8s.ContainerPort) -> bool:
    return bool(port.host_port) and port.host_port != port.container_port


def _is_published(port: k8s.ContainerPort) -> bool:
    return port.host_port == port.container_port


def _needs_names_of_a_cluster(policy: str) -> bool:
    return policy == "ClusterFirstWithHostNet"


def _is_present(value: object) -> bool:
    return value is not None


def _is_in_memory(volume: k8s.EmptyDirVolumeSource) -> bool:
    return volume.medium == "Memory"


def _is_unlimited(resources: k8s.ResourceRequirements) -> bool:
    """True without a CPU limit. With one, its request needs no report, because the limit is reported already."""
    return "cpu" not in resources.limits


_OF_CONTEXTS: Final = tuple(
    row
    for context in ("containers[].securityContext", "securityContext")
    for row in (
        Row(f"{context}.appArmorProfile.type", _UNCONFINED, _is_default_profile),
        Row(f"{context}.seLinuxOptions", _NO_LABEL),
        Row(f"{context}.seccompProfile.type", _UNCONFINED, _is_default_profile),
    )
)
WITHOUT: Final = (
    Row("containers[].ports[].hostIP", _SHARED_ADDRESS, _is_an_address, within=_is_published),
    Row("containers[].ports[].hostPort", _SHARED_PORT, within=_is_published_elsewhere),
    *(
        row
        for resources in ("containers[].resources", "resources")
        for row in (
            Row(f"{resources}.limits", _UNLIMITED, _is_bounded_by_cgroups),
            Row(f"{resources}.requests", _NO_SHARE, _is_processors, within=_is_unlimited),
        )
    ),
    *_OF_CONTEXTS,
    Row("dnsConfig", _MACHINES_NAMES),
    Row("dnsPolicy", _MACHINES_NAMES, _needs_names_of_a_cluster),
)
NOT_MOUNTED: Final = (Row("volumes[].emptyDir.sizeLimit", _SHARED_MEMORY, _is_present, within=_is_in_memory),)
"""Fields that it ignores if the agent may not mount, as an ordinary user."""


def done_without(pod: k8s.Pod, *, may_mount: bool = True) -> tuple[Unsupported, ...]:
    """Return every field of the pod that the embedded runtime ignores, in the table's order; annotations last.
    ``may_mount``: the agent may mount."""
    annotated = (f"{APPARMOR_ANNOTATION}{container.name}" for container in all_containers(pod))
    return (
        *named_by(WITHOUT if may_mount else (*WITHOUT, *NOT_MOUNTED), pod),
        *(
            Unsupported(f"metadata.annotations[{key}]", _UNCONFINED)
            for key in annotated
            if pod.metadata.annotations.get(key) == "runtime/default"
        ),
    )
