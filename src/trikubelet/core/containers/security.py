"""Security contexts: the container's settings over the pod's, in the CRI's terms.

``runAsNonRoot`` is checked here against the user the container would run as, because the runtime would start it as root
without complaint. Masked and read-only paths are the defaults unless ``procMount: Unmasked`` or privileged. A runtime
that is given paths masks only those, so this machine's additional ones (``NodeFacts.throttle_paths``) are passed, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from trikubelet.core import names
from trikubelet.core.containers.errors import ConfigError
from trikubelet.core.containers.profiles import apparmor_profile, seccomp_profile
from trikubelet.model import k8s
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
    from trikubelet.model.runtime import ImageInfo
    from trikubelet.model.runtime_config import IdRange

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
STRICT, UNMASKED = "Strict", "Unmasked"
READONLY_PATHS = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


def namespaces(pod: k8s.Pod, users: IdRange | None = None, target_id: str = "") -> Namespaces:
    """Return the network, process and IPC namespaces that the pod's containers share. ``users``: the mapping of the
    pod's own user namespace, None if it has none. ``target_id``: an ephemeral container's target, whose processes it
    shares."""
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
        users=users,
    )


def sandbox_security(pod: k8s.Pod, users: IdRange | None = None) -> Security:
    """Return the security context of the pod's sandbox; ``users`` as in ``namespaces``. Its own process needs only the
    runtime's default seccomp profile, whatever its containers need. A group without a user is left out, because the
    runtime would reject it. Runtimes check each container against its own settings and not against the sandbox's, so an
    ephemeral one may be privileged in a pod that is not."""
    context = pod.spec.security_context or k8s.PodSecurityContext()
    return Security(
        namespaces=namespaces(pod, users),
        privileged=any(c.security_context and c.security_context.privileged for c in names.with_ephemeral(pod)),
        run_as_user=context.run_as_user,
        run_as_group=context.run_as_group if context.run_as_user is not None else None,
        supplemental_groups=_groups(context),
        supplemental_groups_strict=context.supplemental_groups_policy == STRICT,
        seccomp=SecurityProfile(ProfileType.RUNTIME_DEFAULT),
        selinux=_selinux(context.se_linux_options),
    )


def container_security(
    pod: k8s.Pod,
    container: k8s.Container,
    image: ImageInfo,
    facts: NodeFacts,
    users: IdRange | None = None,
    target_id: str = "",
) -> Security:
    """Return the security context of one container; ``users`` and ``target_id`` as in ``namespaces``. Raises
    ConfigError if it would run as root and must not, or names an invalid profile."""
    whole = pod.spec.security_context or k8s.PodSecurityContext()
    own = container.security_context or k8s.SecurityContext()
    user = whole.run_as_user if own.run_as_user is None else own.run_as_user
    if whole.run_as_non_root if own.run_as_non_root is None else own.run_as_non_root:
        _check_non_root(pod, container, user, image)
    if user is None:
        # An image without a user runs as root; passing that explicitly allows a group to be set.
        user = image.uid if image.uid is not None or image.username else 0
    privileged = bool(own.privileged)
    unmasked = privileged or own.proc_mount == UNMASKED
    capabilities = own.capabilities or k8s.Capabilities()
    return Security(
        namespaces=namespaces(pod, users, target_id),
        privileged=privileged,
        run_as_user=user,
        run_as_username=image.username if user is None else "",
        run_as_group=whole.run_as_group if own.run_as_group is None else own.run_as_group,
        supplemental_groups=_groups(whole),
        supplemental_groups_strict=whole.supplemental_groups_policy == STRICT,
        readonly_rootfs=bool(own.read_only_root_filesystem),
        no_new_privs=own.allow_privilege_escalation is False,
        add_capabilities=capabilities.add,
        drop_capabilities=capabilities.drop,
        masked_paths=() if unmasked else (*MASKED_PATHS, *facts.throttle_paths),
        readonly_paths=() if unmasked else READONLY_PATHS,
        seccomp=seccomp_profile(pod, container, facts),
        apparmor=apparmor_profile(pod, container),
        selinux=_selinux(own.se_linux_options or whole.se_linux_options),
    )


def in_groups(pod: k8s.Pod, groups: tuple[int, ...]) -> k8s.Pod:
    """Return the pod with these groups added to the supplemental groups of its processes."""
    if not groups:
        return pod
    context = pod.spec.security_context or k8s.PodSecurityContext()
    wanted = tuple(dict.fromkeys((*context.supplemental_groups, *groups)))
    context = replace(context, supplemental_groups=wanted)
    return replace(pod, spec=replace(pod.spec, security_context=context))


def _check_non_root(pod: k8s.Pod, container: k8s.Container, user: int | None, image: ImageInfo) -> None:
    whose = f'(pod: "{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})", container: {container.name})'
    if user is not None:
        if user == 0:
            raise ConfigError(f"container's runAsUser breaks non-root policy {whose}", container.name)
        return
    if image.uid:
        return
    if image.uid is None and image.username:
        raise ConfigError(
            f"container has runAsNonRoot and image has non-numeric user ({image.username}),"
            f" cannot verify user is non-root {whose}",
            container.name,
        )
    raise ConfigError(f"container has runAsNonRoot and image will run as root {whose}", container.name)


def _groups(context: k8s.PodSecurityContext) -> tuple[int, ...]:
    """Return the supplemental groups in upstream's order: the one of the volumes first."""
    own = () if context.fs_group is None else (context.fs_group,)
    return tuple(dict.fromkeys((*own, *context.supplemental_groups)))


def _selinux(options: k8s.SELinuxOptions | None) -> SELinuxOptions | None:
    if options is None:
        return None
    return SELinuxOptions(options.user, options.role, options.type, options.level)
