"""Fields for which the embedded runtime rejects a pod, because without them a container would be another, or could do
more or less than it requests.

``trikubelet.embedded.spec`` rejects them, container by container; this table reports them earlier: to ``validate``, and
to the owner of a pod when an agent accepts it. Fields that only some machines or users cannot support are not here:
mounts, other users, privileges. When the runtime supports a field, its row is removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trikubelet.core.containers.unsupported import Unsupported, named_by
from trikubelet.core.support.field import Row

if TYPE_CHECKING:
    from trikubelet.model import k8s

HOST: Final = "host"
_DEFAULT_REGISTRY: Final = "docker.io/library/"
USE_CONTAINERD: Final = "use containerd for this pod"

_NO_IMAGES: Final = f'it has no images but this machine itself: write image "{HOST}", or a name under {HOST}/'
_NO_COMMAND: Final = "the machine, unlike an image, has no command of its own: set one"
_OWN_PROCESSES: Final = "every container has processes of its own, unless the machine allows no namespaces"
_SHARED_NETWORK: Final = "pods share the machine's network and must not change its settings"
_SHARED_USERS: Final = "pods have the machine's users, and none of their own"
_NO_PROFILES: Final = "it loads no profile of the node's own (Localhost)"
_NO_TERMINALS: Final = "it gives containers no terminals (exec -t has one)"
_NO_HANDLERS: Final = "it has no runtime handlers"
_NO_IMAGE_VOLUMES: Final = "it has no image volumes"
_NO_MOUNTS_BACK: Final = "it lets no container mount on the machine (Bidirectional)"


def host_image(image: str) -> str | None:
    """Return the embedded runtime's name of an image, ``host`` or ``host/…``; None for one that it does not have."""
    name = image.removeprefix(_DEFAULT_REGISTRY).removesuffix(":latest")
    return name if name == HOST or (name.startswith(f"{HOST}/") and len(name) > len(HOST) + 1) else None


def _is_elsewhere(image: str) -> bool:
    return host_image(image) is None


def _is_empty(command: tuple[str, ...]) -> bool:
    return not command


def _runs_nothing(container: Any) -> bool:
    """True for the host's image without a command. Other images are rejected anyway."""
    return not container.args and not _is_elsewhere(container.image)


def _is_localhost(type_: str) -> bool:
    return type_ == "Localhost"


def _is_false(value: bool | None) -> bool:
    return value is False


def _is_present(value: object) -> bool:
    return value is not None


def _is_bidirectional(propagation: str) -> bool:
    return propagation == "Bidirectional"


REFUSED: Final = (
    Row("containers[].image", _NO_IMAGES, _is_elsewhere),
    Row("containers[].command", _NO_COMMAND, _is_empty, within=_runs_nothing),
    Row("containers[].tty", _NO_TERMINALS),
    Row("containers[].volumeMounts[].mountPropagation", _NO_MOUNTS_BACK, _is_bidirectional),
    *(
        Row(f"{context}.{profile}.type", _NO_PROFILES, _is_localhost)
        for context in ("containers[].securityContext", "securityContext")
        for profile in ("appArmorProfile", "seccompProfile")
    ),
    Row("ephemeralContainers[].targetContainerName", _OWN_PROCESSES),
    Row("hostPID", _OWN_PROCESSES),
    Row("hostUsers", _SHARED_USERS, _is_false),
    Row("runtimeClassName", _NO_HANDLERS),
    Row("securityContext.sysctls", _SHARED_NETWORK),
    Row("shareProcessNamespace", _OWN_PROCESSES),
    Row("volumes[].image", _NO_IMAGE_VOLUMES, _is_present),
)


def refused(pod: k8s.Pod) -> tuple[Unsupported, ...]:
    """Return every field for which the embedded runtime rejects the pod or one of its containers, in the table's
    order."""
    return tuple(named_by(REFUSED, pod))
