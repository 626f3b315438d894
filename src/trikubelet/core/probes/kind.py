"""The three kinds of probes, and which a pod has."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from trikubelet.core.restarts import is_sidecar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trikubelet.model.k8s import Container, Pod, Probe


class ProbeKind(StrEnum):
    """What a probe asks after. The values are the words of events."""

    LIVENESS = "Liveness"
    READINESS = "Readiness"
    STARTUP = "Startup"

    def probe_of(self, container: Container) -> Probe | None:
        """The container's probe of this kind."""
        match self:
            case ProbeKind.LIVENESS:
                return container.liveness_probe
            case ProbeKind.READINESS:
                return container.readiness_probe
            case ProbeKind.STARTUP:
                return container.startup_probe


def probes_of(pod: Pod) -> Iterator[tuple[ProbeKind, Container]]:
    """Every probe of the pod: its regular containers and its sidecars have them. What else runs is not probed."""
    sidecars = (container for container in pod.spec.init_containers if is_sidecar(container))
    for container in (*pod.spec.containers, *sidecars):
        for kind in ProbeKind:
            if kind.probe_of(container) is not None:
                yield kind, container
