"""What of a pod that the node has counts when another is admitted, worked out once and not for each other pod again.

Requests are exact amounts (fractions): summing them up for each pod of the node whenever one is admitted kept a node of
500 pods from all else for tens of milliseconds. The scheduler keeps the same, under the same name (framework.PodInfo).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trikubelet.core.admission.ports import host_ports
from trikubelet.core.requests import promised

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.core.admission.ports import Port
    from trikubelet.model.k8s import Pod


class PodInfo(NamedTuple):
    """A pod that holds a place: what it was promised (millicores, bytes or pieces, by resource), and its host ports."""

    pod: Pod
    promised: Mapping[str, int]
    host_ports: frozenset[Port]


def pod_info(pod: Pod) -> PodInfo:
    """Of a pod as it is allocated."""
    return PodInfo(pod, promised(pod), host_ports(pod))
