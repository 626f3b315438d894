"""The configuration of a pod's sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core import names
from trikubelet.core.containers.cgroups import cgroup_parent
from trikubelet.core.containers.dns import dns_plan
from trikubelet.core.containers.errors import ConfigError
from trikubelet.core.containers.hosts import hostname
from trikubelet.core.containers.resources import pod_resources
from trikubelet.core.containers.security import sandbox_security
from trikubelet.model.runtime_config import PortMapping, Protocol, SandboxConfig

if TYPE_CHECKING:
    from trikubelet.core.containers.facts import NodeFacts
    from trikubelet.model.k8s import Pod


def sandbox_config(pod: Pod, attempt: int, facts: NodeFacts) -> SandboxConfig:
    """Everything ``RunPodSandbox`` needs. Raises ConfigError."""
    meta, context = pod.metadata, pod.spec.security_context
    try:
        name = hostname(pod, facts)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return SandboxConfig(
        uid=meta.uid,
        name=meta.name,
        namespace=meta.namespace,
        attempt=attempt,
        hostname="" if pod.spec.host_network else name,
        log_directory=f"{facts.pod_logs_dir}/{names.log_directory_name(meta.namespace, meta.name, meta.uid)}",
        dns=dns_plan(pod, facts).config,
        port_mappings=() if pod.spec.host_network else _ports(pod),
        labels=names.pod_labels(pod),
        annotations=dict(meta.annotations),
        cgroup_parent=cgroup_parent(pod, facts),
        security=sandbox_security(pod, facts),
        sysctls={s.name.replace("/", "."): s.value for s in context.sysctls} if context else {},
        resources=pod_resources(pod, facts),
        runtime_handler=pod.spec.runtime_class_name,
    )


def _ports(pod: Pod) -> tuple[PortMapping, ...]:
    """The ports published on the node; a container port without a host port is only documentation."""
    return tuple(
        PortMapping(port.container_port, port.host_port, Protocol[port.protocol or "TCP"], port.host_ip)
        for container in names.all_containers(pod)
        for port in container.ports
        if port.host_port
    )
