"""The facts about a pod of the node that count when another is admitted, computed once per pod.

Requests are exact amounts (fractions): summing them up for every pod at each admission blocked a node of 500 pods for
tens of milliseconds. The scheduler keeps the same, under the same name (framework.PodInfo).
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
    """A pod on the node: its requests (millicores, bytes or pieces, by resource), and its host ports."""

    pod: Pod
    promised: Mapping[str, int]
    host_ports: frozenset[Port]


def pod_info(pod: Pod) -> PodInfo:
    """Return the facts about a pod with its allocated resources."""
    return PodInfo(pod, promised(pod), host_ports(pod))
