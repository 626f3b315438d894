"""The variables that tell a container the addresses of its cluster's services, in both of their old forms.

    REDIS_SERVICE_HOST=10.0.0.11          REDIS_PORT=tcp://10.0.0.11:6379
    REDIS_SERVICE_PORT=6379               REDIS_PORT_6379_TCP=tcp://10.0.0.11:6379
    REDIS_SERVICE_PORT_METRICS=9121       REDIS_PORT_6379_TCP_PROTO=tcp · …_PORT=6379 · …_ADDR=10.0.0.11

The right half is what Docker's links once set. A pod sees the services of its own namespace, unless
``enableServiceLinks`` is false, and always the API server's, ``default/kubernetes``; services without a cluster IP are
left out (upstream: getServiceEnvVarMap, envvars.FromServices).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trikubelet.model.k8s import Pod, Service

API_SERVICE = ("default", "kubernetes")


class ServicePort(Frozen):
    """One port of a service. ``protocol`` is in capitals; ``name`` may be empty."""

    name: str
    number: int
    protocol: str


class ServiceAddress(Frozen):
    """The fields of a service that variables are made of; ``cluster_ip`` is "" without one."""

    namespace: str
    name: str
    cluster_ip: str
    ports: tuple[ServicePort, ...]


def address_of(service: Service) -> ServiceAddress:
    """Return a service's address. The rest of the object need not be kept: a cluster may have thousands."""
    meta, spec = service.metadata, service.spec
    if spec is None or spec.cluster_ip in ("", "None"):
        return ServiceAddress(meta.namespace, meta.name, "", ())
    ports = tuple(ServicePort(port.name, port.port, port.protocol.upper() or "TCP") for port in spec.ports)
    return ServiceAddress(meta.namespace, meta.name, spec.cluster_ip, ports)


def service_variables(pod: Pod, services: Iterable[ServiceAddress]) -> dict[str, str]:
    """Return names and values for the containers of a pod, in the order of the services' names."""
    seen: dict[str, ServiceAddress] = {}
    for service in services:
        if not service.cluster_ip:
            continue
        if (service.namespace, service.name) == API_SERVICE:
            seen.setdefault(service.name, service)
        elif service.namespace == pod.metadata.namespace and pod.spec.enable_service_links is not False:
            seen[service.name] = service
    return {name: value for _, service in sorted(seen.items()) for name, value in _variables(service)}


def _variables(service: ServiceAddress) -> Iterator[tuple[str, str]]:
    prefix = _capitals(service.name)
    yield f"{prefix}_SERVICE_HOST", service.cluster_ip
    for first, port in enumerate(service.ports):
        if first == 0:
            yield f"{prefix}_SERVICE_PORT", str(port.number)
        if port.name:
            yield f"{prefix}_SERVICE_PORT_{_capitals(port.name)}", str(port.number)
    for first, port in enumerate(service.ports):
        protocol = port.protocol.lower()
        url = f"{protocol}://{_bracketed(service.cluster_ip)}:{port.number}"
        link = f"{prefix}_PORT_{port.number}_{port.protocol}"
        if first == 0:
            yield f"{prefix}_PORT", url
        yield link, url
        yield f"{link}_PROTO", protocol
        yield f"{link}_PORT", str(port.number)
        yield f"{link}_ADDR", service.cluster_ip


def _capitals(name: str) -> str:
    return name.upper().replace("-", "_")


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address
