"""Ports: their numbers and names, and conflicts of host ports within one pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.document.shown import shown
from trikubelet.core.manifest.problem import Problem, duplicate, invalid, one_of, required
from trikubelet.model import names

if TYPE_CHECKING:
    from trikubelet.core.manifest.problem import Problems
    from trikubelet.model.k8s import Container, ContainerPort, PodSpec

PROTOCOLS = ("TCP", "UDP", "SCTP")


def port_problems(path: str, container: Container, spec: PodSpec) -> Problems:
    """Yield the problems of one container's ports."""
    seen: set[str] = set()
    for n, port in enumerate(container.ports):
        here = f"{path}.ports[{n}]"
        if port.name:
            if problem := names.port_name_problem(port.name):
                yield invalid(f"{here}.name", port.name, problem)
            elif port.name in seen:
                yield duplicate(f"{here}.name", port.name)
            seen.add(port.name)
        yield from _numbers(here, port, on_host=bool(spec.host_network) and path.startswith("spec.containers"))
        yield from one_of(f"{here}.protocol", port.protocol, PROTOCOLS)
        if port.host_ip and (problem := names.ip_problem(port.host_ip)):
            yield invalid(f"{here}.hostIP", port.host_ip, problem)


def _numbers(path: str, port: ContainerPort, *, on_host: bool) -> Problems:
    """Yield the problems of the numbers. ``on_host``: it is a regular container in the host's network; the API requires
    less of init containers there."""
    if not port.container_port:
        yield required(f"{path}.containerPort")
    elif problem := names.port_problem(port.container_port):
        yield invalid(f"{path}.containerPort", port.container_port, problem)
    elif on_host and port.host_port and port.host_port != port.container_port:
        detail = "must be the same as containerPort, because hostNetwork is true"
        yield invalid(f"{path}.hostPort", port.host_port, detail)
    if port.host_port and not on_host and (problem := names.port_problem(port.host_port)):
        yield invalid(f"{path}.hostPort", port.host_port, problem)


def host_port_problems(spec: PodSpec) -> Problems:
    """Yield conflicts of host ports between containers that run at the same time. Init containers follow one another
    and only run together with sidecars."""
    lasting: dict[tuple[str, str, int], str] = {}
    for n, container in enumerate(spec.init_containers):
        path = f"spec.initContainers[{n}]"
        taken = lasting if container.restart_policy == "Always" else dict(lasting)
        yield from _take(path, container, taken)
    for n, container in enumerate(spec.containers):
        yield from _take(f"spec.containers[{n}]", container, lasting)


def _take(path: str, container: Container, taken: dict[tuple[str, str, int], str]) -> Problems:
    for n, port in enumerate(container.ports):
        if not port.host_port:
            continue
        here = f"{path}.ports[{n}].hostPort"
        first = taken.setdefault((port.protocol, port.host_ip, port.host_port), here)
        if first != here:
            yield Problem(here, f"Duplicate value: {shown(port.host_port)}: {first} has it already")
