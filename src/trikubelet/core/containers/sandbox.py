"""The configuration of a pod's sandbox: names, network, namespaces, and the resources of the whole pod.

Settings that cannot be honoured and would weaken the node's isolation if left out (forbidden sysctls) are rejected
here; ``unsupported`` reports settings that merely have no effect yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core import names
from trikubelet.core.containers.cgroups import cgroup_parent
from trikubelet.core.containers.dns import dns_plan
from trikubelet.core.containers.errors import SandboxConfigError
from trikubelet.core.containers.host_names import kernel_hostname
from trikubelet.core.containers.resources import overhead, sandbox_resources
from trikubelet.core.containers.security import sandbox_security
from trikubelet.core.containers.sysctls import forbidden_sysctl, pod_sysctls
from trikubelet.core.restarts import is_sidecar
from trikubelet.model.runtime_config import PortMapping, Protocol, SandboxConfig

if TYPE_CHECKING:
    from trikubelet.core.containers.facts import NodeFacts
    from trikubelet.model.k8s import Pod
    from trikubelet.model.runtime_config import IdRange


def sandbox_config(pod: Pod, attempt: int, facts: NodeFacts, users: IdRange | None = None) -> SandboxConfig:
    """Return the content of ``RunPodSandbox`` except the runtime handler, which needs I/O. ``users``: the mapping of
    the pod's own user namespace, None if it has none. Raises SandboxConfigError."""
    if problem := forbidden_sysctl(pod, facts):
        raise SandboxConfigError(problem)
    meta = pod.metadata
    return SandboxConfig(
        uid=meta.uid,
        name=meta.name,
        namespace=meta.namespace,
        attempt=attempt,
        hostname=_hostname(pod, facts),
        log_directory=log_directory(pod, facts),
        dns=dns_plan(pod, facts).config,
        port_mappings=_ports(pod),
        labels=names.pod_labels(pod),
        annotations=dict(meta.annotations),
        cgroup_parent=cgroup_parent(pod, facts),
        security=sandbox_security(pod, users),
        sysctls=pod_sysctls(pod),
        resources=sandbox_resources(pod, facts),
        overhead=overhead(pod, facts),
    )


def log_directory(pod: Pod, facts: NodeFacts) -> str:
    """Return the directory of the pod's logs."""
    meta = pod.metadata
    return f"{facts.pod_logs_dir}/{names.log_directory_name(meta.namespace, meta.name, meta.uid)}"


def _hostname(pod: Pod, facts: NodeFacts) -> str:
    """Return the host name; "" on the host network, because the node's UTS namespace is shared and must not be
    renamed."""
    try:
        return "" if pod.spec.host_network else kernel_hostname(pod, facts)
    except ValueError as error:
        raise SandboxConfigError(str(error)) from error


def _ports(pod: Pod) -> tuple[PortMapping, ...]:
    """Return all ports of the pod, like upstream. A runtime publishes those with a host port, and none on the host
    network, where every port is the node's already; network plugins may read the others. Those of plain init
    containers are left out."""
    sidecars = (container for container in pod.spec.init_containers if is_sidecar(container))
    mappings = (
        PortMapping(port.container_port, port.host_port or 0, Protocol[port.protocol or "TCP"], port.host_ip)
        for container in (*sidecars, *pod.spec.containers)
        for port in container.ports
    )
    return tuple(dict.fromkeys(mappings))
