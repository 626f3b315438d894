"""Security contexts of pods and containers, and the host namespaces that a pod may share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.containers.sysctls import host_namespace, normal_name
from trikubelet.core.manifest.problem import duplicate, forbidden, invalid, named, one_of, required, too_long
from trikubelet.core.manifest.validation.rules import id_problems
from trikubelet.model import names

if TYPE_CHECKING:
    from trikubelet.core.manifest.problem import Problems
    from trikubelet.model.k8s import (
        AppArmorProfile,
        Container,
        PodSecurityContext,
        PodSpec,
        SeccompProfile,
        SecurityContext,
    )

PROFILES = ("RuntimeDefault", "Localhost", "Unconfined")
PROFILE_CHARS_MAX = 4095


def pod_security_problems(spec: PodSpec) -> Problems:
    """Yield the problems of the pod's own context and of the namespaces it shares with the node."""
    if spec.host_pid and spec.share_process_namespace:
        yield invalid("spec.shareProcessNamespace", value=True, detail="may not be true where hostPID is")
    if spec.host_users is False:
        for field, shared in (
            ("hostNetwork", spec.host_network),
            ("hostPID", spec.host_pid),
            ("hostIPC", spec.host_ipc),
        ):
            if shared:
                yield forbidden(f"spec.{field}", "may not be true where hostUsers is false")
    context = spec.security_context
    if context is not None:
        yield from _pod_context("spec.securityContext", context, spec)


def _pod_context(path: str, context: PodSecurityContext, spec: PodSpec) -> Problems:
    yield from _shared(path, context, spec)
    yield from id_problems(f"{path}.fsGroup", context.fs_group)
    for n, group in enumerate(context.supplemental_groups):
        yield from id_problems(f"{path}.supplementalGroups[{n}]", group)
    yield from one_of(f"{path}.fsGroupChangePolicy", context.fs_group_change_policy, ("OnRootMismatch", "Always"))
    yield from one_of(f"{path}.supplementalGroupsPolicy", context.supplemental_groups_policy, ("Merge", "Strict"))
    yield from one_of(f"{path}.seLinuxChangePolicy", context.se_linux_change_policy, ("Recursive",))
    seen: set[str] = set()
    for n, sysctl in enumerate(context.sysctls):
        here = f"{path}.sysctls[{n}].name"
        yield from named(here, sysctl.name, names.sysctl_problem(sysctl.name))
        if sysctl.name in seen:
            yield duplicate(here, sysctl.name)
        seen.add(sysctl.name)
        if shared := host_namespace(normal_name(sysctl.name), spec):
            yield invalid(here, sysctl.name, f"may not be set where {shared} is true")


def container_security_problems(path: str, container: Container, spec: PodSpec) -> Problems:
    """Yield the problems of one container's context."""
    context = container.security_context
    if context is None:
        return
    path = f"{path}.securityContext"
    yield from _shared(path, context, spec)
    yield from one_of(f"{path}.procMount", context.proc_mount, ("Default", "Unmasked"))
    if context.proc_mount == "Unmasked" and spec.host_users is not False:
        yield invalid(f"{path}.procMount", context.proc_mount, "needs hostUsers: false")
    if context.allow_privilege_escalation is False:
        where = f"{path}.allowPrivilegeEscalation"
        if context.privileged:
            yield invalid(where, value=False, detail="a privileged container has every privilege already")
        # Only this spelling, like the API; capabilities in the other spelling are effective there too.
        if context.capabilities and "CAP_SYS_ADMIN" in context.capabilities.add:
            yield invalid(where, value=False, detail="the capability CAP_SYS_ADMIN allows escalation")


def _shared(path: str, context: PodSecurityContext | SecurityContext, spec: PodSpec) -> Problems:
    """Yield the problems of the fields that the contexts of pods and containers share."""
    yield from id_problems(f"{path}.runAsUser", context.run_as_user)
    yield from id_problems(f"{path}.runAsGroup", context.run_as_group)
    for field, profile in (("seccompProfile", context.seccomp_profile), ("appArmorProfile", context.app_armor_profile)):
        if profile is not None:
            yield from _profile(f"{path}.{field}", profile, is_file=field == "seccompProfile")
    if context.windows_options is not None and spec.os is not None:
        yield forbidden(f"{path}.windowsOptions", "may not be set where spec.os.name is linux")


def _profile(path: str, profile: SeccompProfile | AppArmorProfile, *, is_file: bool) -> Problems:
    local = profile.localhost_profile
    where = f"{path}.localhostProfile"
    if not profile.type:
        yield required(f"{path}.type")
    yield from one_of(f"{path}.type", profile.type, PROFILES)
    if profile.type == "Localhost" and not local.strip():
        yield required(where, "must be set where type is Localhost")
    if profile.type not in ("", "Localhost") and local:
        yield forbidden(where, "may only be set where type is Localhost")
    if is_file and local and (problem := names.path_in_volume_problem(local)):
        yield invalid(where, local, problem)
    if not is_file and local != local.strip():
        yield invalid(where, local, "must not begin or end with blanks")
    if not is_file and len(local) > PROFILE_CHARS_MAX:
        yield too_long(where, PROFILE_CHARS_MAX)
