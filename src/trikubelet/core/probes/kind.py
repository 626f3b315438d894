"""The three kinds of probes, and the probes of a pod."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from trikubelet.core.restarts import is_sidecar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trikubelet.model.k8s import Container, Pod, Probe


class ProbeKind(StrEnum):
    """The kind of a probe. The values are the words in events."""

    LIVENESS = "Liveness"
    READINESS = "Readiness"
    STARTUP = "Startup"

    def probe_of(self, container: Container) -> Probe | None:
        """Return the container's probe of this kind."""
        match self:
            case ProbeKind.LIVENESS:
                return container.liveness_probe
            case ProbeKind.READINESS:
                return container.readiness_probe
            case ProbeKind.STARTUP:
                return container.startup_probe


def probes_of(pod: Pod) -> Iterator[tuple[ProbeKind, Container]]:
    """Yield every probe of the pod: those of its regular containers and sidecars. Other containers are not probed."""
    sidecars = (container for container in pod.spec.init_containers if is_sidecar(container))
    for container in (*pod.spec.containers, *sidecars):
        for kind in ProbeKind:
            if kind.probe_of(container) is not None:
                yield kind, container
