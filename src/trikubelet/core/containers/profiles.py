"""Seccomp and AppArmor profiles: the profile of each container, and if a pod needs AppArmor at all.

A local seccomp profile is a file below the agent's root directory, which the runtime reads: a missing one fails the
container's creation. The operator must load AppArmor profiles into the kernel. A node whose kernel does not enforce
AppArmor rejects pods that name one (``core.admission``), because they would run unconfined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.containers.errors import ConfigError
from trikubelet.core.names import all_containers, with_ephemeral
from trikubelet.model import k8s
from trikubelet.model.runtime_config import ProfileType, SecurityProfile

if TYPE_CHECKING:
    from trikubelet.core.containers.facts import NodeFacts

APPARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"
SECCOMP_POD_ANNOTATION = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_ANNOTATION = "container.seccomp.security.alpha.kubernetes.io/"
"""Followed by a container's name. Neither of the two has an effect any more. (upstream: since v1.27)"""
LOCALHOST, RUNTIME_DEFAULT, UNCONFINED = "Localhost", "RuntimeDefault", "Unconfined"
_TYPES = {RUNTIME_DEFAULT: ProfileType.RUNTIME_DEFAULT, UNCONFINED: ProfileType.UNCONFINED}


def seccomp_profile(pod: k8s.Pod, container: k8s.Container, facts: NodeFacts) -> SecurityProfile:
    """Return the container's profile, or the pod's, or the node's default. Raises ConfigError for a file outside the
    directory of profiles."""
    whole, own = pod.spec.security_context, container.security_context
    profile = (own.seccomp_profile if own else None) or (whole.seccomp_profile if whole else None)
    if profile is None:
        return SecurityProfile(ProfileType.RUNTIME_DEFAULT if facts.seccomp_default else ProfileType.UNCONFINED)
    if profile.type != LOCALHOST:
        return SecurityProfile(_TYPES.get(profile.type, ProfileType.UNCONFINED))
    name = profile.localhost_profile
    if not name or name.startswith("/") or ".." in name.split("/"):
        message = f"seccomp localhostProfile {name!r} must be a path below {facts.seccomp_root}"
        raise ConfigError(message, container.name)
    return SecurityProfile(ProfileType.LOCALHOST, f"{facts.seccomp_root}/{name}")


def apparmor_profile(pod: k8s.Pod, container: k8s.Container) -> SecurityProfile | None:
    """Return the container's profile, or the pod's. None: the runtime applies its default if AppArmor is on."""
    whole, own = pod.spec.security_context, container.security_context
    profile = own.app_armor_profile if own else None
    profile = profile or _annotated(pod, container) or (whole.app_armor_profile if whole else None)
    if profile is None:
        return None
    if profile.type == LOCALHOST:
        return SecurityProfile(ProfileType.LOCALHOST, profile.localhost_profile)
    return SecurityProfile(_TYPES.get(profile.type, ProfileType.UNCONFINED))


def needs_apparmor(pod: k8s.Pod) -> bool:
    """True if AppArmor must confine the pod or one of its containers (upstream: apparmor.isRequired)."""
    whole = pod.spec.security_context
    asked = [whole.app_armor_profile if whole else None]
    for container in with_ephemeral(pod):
        own = container.security_context
        asked.append(own.app_armor_profile if own else None)
    asked += [_annotated(pod, container) for container in all_containers(pod)]
    return any(profile is not None and profile.type != UNCONFINED for profile in asked)


def _annotated(pod: k8s.Pod, container: k8s.Container) -> k8s.AppArmorProfile | None:
    """Return the profile of the annotation that preceded the field. The API server copies it into the field, but
    manifests on this node's disk do not pass through an API server."""
    value = pod.metadata.annotations.get(f"{APPARMOR_ANNOTATION}{container.name}", "")
    if value == "runtime/default":
        return k8s.AppArmorProfile(type=RUNTIME_DEFAULT)
    if value.startswith("localhost/"):
        return k8s.AppArmorProfile(type=LOCALHOST, localhost_profile=value.removeprefix("localhost/"))
    return k8s.AppArmorProfile(type=UNCONFINED) if value == "unconfined" else None
