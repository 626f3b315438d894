"""Finds the host port that a pod wants and another pod of the node holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trikubelet.core.admission.ports import is_same_port

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.core.admission.pod_info import PodInfo
    from trikubelet.core.admission.ports import Port
    from trikubelet.model import k8s


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
        if any(is_same_port(port, taken) for taken in other.host_ports)
    )
    return next(held, None)
