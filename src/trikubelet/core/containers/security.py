"""Security contexts: the container's settings over the pod's, in the CRI's terms.

``runAsNonRoot`` is checked here against the user the container would run as, because the runtime would happily start it
as root. Masked and read-only paths are the defaults unless ``procMount: Unmasked`` or privileged.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trikubelet.core.containers.errors import ConfigError
from trikubelet.model.runtime_config import (
    NamespaceMode,
    Namespaces,
    ProfileType,
    Security,
    SecurityProfile,
    SELinuxOptions,
)

if TYPE_CHECKING:
    from trikubelet.core.containers.facts import NodeFacts
    from trikubelet.model import k8s
    from trikubelet.model.runtime import ImageInfo

MASKED_PATHS = (
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
)
READONLY_PATHS = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


def namespaces(pod: k8s.Pod, target_id: str = "") -> Namespaces:
    """Whose network, process and IPC namespaces the pod's containers share. ``target_id``: an ephemeral container's
    target, whose processes it shall see."""
    spec = pod.spec
    if target_id:
        pid = NamespaceMode.TARGET
    elif spec.host_pid:
        pid = NamespaceMode.NODE
    elif spec.share_process_namespace:
        pid = NamespaceMode.POD
    else:
        pid = NamespaceMode.CONTAINER
    return Namespaces(
        network=NamespaceMode.NODE if spec.host_network else NamespaceMode.POD,
        pid=pid,
        ipc=NamespaceMode.NODE if spec.host_ipc else NamespaceMode.POD,
        target_id=target_id,
    )


def sandbox_security(pod: k8s.Pod, facts: NodeFacts) -> Security:
    """The security context of the pod's sandbox."""
    context = pod.spec.security_context
    return Security(
        namespaces=namespaces(pod),
        privileged=any(
            c.security_context and c.security_context.privileged
            for c in (*pod.spec.init_containers, *pod.spec.containers)
        ),
        run_as_user=context.run_as_user if context else None,
        run_as_group=context.run_as_group if context else None,
        supplemental_groups=_groups(context),
        supplemental_groups_strict=bool(context and context.supplemental_groups_policy == "Strict"),
        seccomp=_seccomp(context.seccomp_profile if context else None, facts),
        apparmor=_apparmor(context.app_armor_profile if context else None),
        selinux=_selinux(context.se_linux_options if context else None),
    )


def container_security(pod: k8s.Pod, container: k8s.Container, image: ImageInfo, facts: NodeFacts) -> Security:
    """The security context of one container. Raises ConfigError when it would run as root and must not."""
    whole, own = pod.spec.security_context, container.security_context
    user = _first(own and own.run_as_user, whole and whole.run_as_user)
    non_root = _first(own and own.run_as_non_root, whole and whole.run_as_non_root)
    if non_root:
        _check_non_root(pod, container, user, image)
    privileged = bool(own and own.privileged)
    unmasked = privileged or bool(own and own.proc_mount == "Unmasked")
    # Whatever was there before is dropped, and added_capabilities are what the spec says: the runtime knows the rest.
    capabilities = own.capabilities if own else None
    no_new_privs = bool(own and own.allow_privilege_escalation is False)
    seccomp = (own.seccomp_profile if own else None) or (whole.seccomp_profile if whole else None)
    apparmor = (own.app_armor_profile if own else None) or (whole.app_armor_profile if whole else None)
    selinux = (own.se_linux_options if own else None) or (whole.se_linux_options if whole else None)
    # The image's own user counts where nobody asked for another.
    by_image = user is None
    return Security(
        namespaces=namespaces(pod),
        privileged=privileged,
        run_as_user=image.uid if by_image else user,
        run_as_username=image.username if by_image and image.uid is None else "",
        run_as_group=_first(own and own.run_as_group, whole and whole.run_as_group),
        supplemental_groups=_groups(whole),
        supplemental_groups_strict=bool(whole and whole.supplemental_groups_policy == "Strict"),
        readonly_rootfs=bool(own and own.read_only_root_filesystem),
        no_new_privs=no_new_privs,
        add_capabilities=capabilities.add if capabilities else (),
        drop_capabilities=capabilities.drop if capabilities else (),
        masked_paths=() if unmasked else MASKED_PATHS,
        readonly_paths=() if unmasked else READONLY_PATHS,
        seccomp=SecurityProfile(ProfileType.UNCONFINED) if privileged else _seccomp(seccomp, facts),
        apparmor=_apparmor(apparmor),
        selinux=_selinux(selinux),
    )


def _first(*values: object) -> int | None:
    """The first value that is set; booleans pass as the integers they are."""
    return next((value for value in values if isinstance(value, int)), None)


def _check_non_root(pod: k8s.Pod, container: k8s.Container, user: int | None, image: ImageInfo) -> None:
    whose = f'(pod: "{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})", container: {container.name})'
    if user is not None:
        if user == 0:
            raise ConfigError(f"container's runAsUser breaks non-root policy {whose}", container.name)
        return
    if image.uid == 0:
        raise ConfigError(f"container has runAsNonRoot and image will run as root {whose}", container.name)
    if image.uid is None and image.username:
        raise ConfigError(
            f"container has runAsNonRoot and image has non-numeric user ({image.username}),"
            f" cannot verify user is non-root {whose}",
            container.name,
        )
    if image.uid is None:
        raise ConfigError(f"container has runAsNonRoot and image will run as root {whose}", container.name)


def _groups(context: k8s.PodSecurityContext | None) -> tuple[int, ...]:
    if context is None:
        return ()
    own = () if context.fs_group is None else (context.fs_group,)
    return (*context.supplemental_groups, *own)


def _seccomp(profile: k8s.SeccompProfile | None, facts: NodeFacts) -> SecurityProfile:
    if profile is None:
        return SecurityProfile(ProfileType.RUNTIME_DEFAULT if facts.seccomp_default else ProfileType.UNCONFINED)
    match profile.type:
        case "RuntimeDefault":
            return SecurityProfile(ProfileType.RUNTIME_DEFAULT)
        case "Localhost":
            if re.search(r"(^|/)\.\.(/|$)", profile.localhost_profile) or profile.localhost_profile.startswith("/"):
                raise ConfigError(
                    f"seccomp profile {profile.localhost_profile!r} must be a path below the profile root"
                )
            return SecurityProfile(ProfileType.LOCALHOST, f"{facts.seccomp_root}/{profile.localhost_profile}")
        case _:
            return SecurityProfile(ProfileType.UNCONFINED)


def _apparmor(profile: k8s.AppArmorProfile | None) -> SecurityProfile | None:
    if profile is None:
        return None
    match profile.type:
        case "RuntimeDefault":
            return SecurityProfile(ProfileType.RUNTIME_DEFAULT)
        case "Localhost":
            return SecurityProfile(ProfileType.LOCALHOST, profile.localhost_profile)
        case _:
            return SecurityProfile(ProfileType.UNCONFINED)


def _selinux(options: k8s.SELinuxOptions | None) -> SELinuxOptions | None:
    if options is None:
        return None
    return SELinuxOptions(options.user, options.role, options.type, options.level)
