"""The sysctls that a pod may set: the safe ones, and those that the operator allows.

A sysctl that is not namespaced changes the whole node, and a namespaced one may still starve it; so any that is not
known to be harmless needs ``allowedUnsafeSysctls``. A safe one becomes unsafe in a pod that shares the node's
namespace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.core.containers.facts import NodeFacts
    from trikubelet.model.k8s import Pod, PodSpec

SAFE_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_notsent_lowat",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_slow_start_after_idle",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)
# The sysctls of each namespace; the rest of /proc/sys belongs to the node and no pod may set it.
_IPC = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")
_NET = ("net.",)
_UTS = ("kernel.domainname",)
_USER = ("user.",)


def normal_name(name: str) -> str:
    """Return the dotted spelling. With slashes a dot is part of a component (an interface's name), and the two swap
    places."""
    separators = [char for char in name if char in "./"]
    return name.translate(str.maketrans("./", "/.")) if separators and separators[0] == "/" else name


def pod_sysctls(pod: Pod) -> dict[str, str]:
    """Return the pod's sysctls by dotted name."""
    context = pod.spec.security_context
    return {normal_name(sysctl.name): sysctl.value for sysctl in context.sysctls} if context else {}


def host_namespace(name: str, spec: PodSpec) -> str:
    """Return the field by which the pod shares the node's namespace of this sysctl; "" if it does not share it."""
    if name.startswith(_IPC) and spec.host_ipc:
        return "hostIPC"
    return "hostNetwork" if name.startswith(_NET) and spec.host_network else ""


def forbidden_sysctl(pod: Pod, facts: NodeFacts) -> str:
    """Return why the pod must not run here (reason SysctlForbidden); "" if it may."""
    for name in pod_sysctls(pod):
        if shared := host_namespace(name, pod.spec):
            return f'forbidden sysctl: "{name}" not allowed with host {"IPC" if shared == "hostIPC" else "Net"} enabled'
        if name not in SAFE_SYSCTLS and not _let_through(name, facts.allowed_sysctls):
            return f'forbidden sysctl: "{name}" not allowlisted'
        # The API server takes such a pod; only the kubelet refuses it, because few runtimes do.
        if name.startswith(_USER) and pod.spec.host_users is not False:
            return f'forbidden sysctl: "{name}" not allowed with host User enabled'
        if not name.startswith(_IPC + _NET + _UTS + _USER):
            return f'forbidden sysctl: "{name}" belongs to the node and not to a namespace of the pod'
    return ""


def _let_through(name: str, allowed: Iterable[str]) -> bool:
    patterns = [normal_name(pattern) for pattern in allowed]
    return any(name.startswith(p[:-1]) if p.endswith("*") else name == p for p in patterns)
