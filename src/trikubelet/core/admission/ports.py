"""Host ports: one address, protocol and port of the node can serve only one pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trikubelet.core.restarts import is_sidecar
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.core.admission.pod_info import PodInfo

_ANY = "0.0.0.0"  # noqa: S104 - the meaning of a port without an address

Port = tuple[str, str, int]
"""Address, protocol and port."""


class Held(NamedTuple):
    """A host port that a pod wants and another pod holds."""

    port: Port
    holder: k8s.Pod


def held_port(wanted: Iterable[Port], others: Iterable[PodInfo]) -> Held | None:
    """Return the first of these host ports, by number, that another pod holds; None if all are free."""
    others = tuple(others)
    held = (
        Held(port, other.pod)
        for port in sorted(wanted, key=lambda port: port[::-1])
        for other in others
        if any(_is_same(port, taken) for taken in other.host_ports)
    )
    return next(held, None)


def host_ports(pod: k8s.Pod) -> frozenset[Port]:
    """Return the host ports that the pod serves. Plain init containers do not serve long enough to count."""
    serving = (*filter(is_sidecar, pod.spec.init_containers), *pod.spec.containers)
    return frozenset(
        (port.host_ip or _ANY, port.protocol or "TCP", port.host_port)
        for container in serving
        for port in container.ports
        if port.host_port
    )


def _is_same(a: Port, b: Port) -> bool:
    return a[1:] == b[1:] and (a[0] == b[0] or _ANY in (a[0], b[0]))
