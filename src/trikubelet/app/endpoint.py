"""Which container runtime: the one that was named, else the first that is found, else the embedded one.

    --container-runtime-endpoint=unix:///…   that one, waited for if it is not there yet
    --container-runtime-endpoint=embedded:   the runtime inside the agent
    --container-runtime-endpoint=fake:       the simulated runtime inside the agent, which runs nothing
    nothing named                            upstream's default socket; with --standalone, the first well-known socket
                                             that exists, else the embedded runtime

The choice is logged with its reason, because a node that silently runs something else than its operator thinks is worse
than one that does not start.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

EMBEDDED: Final = "embedded:"
FAKE: Final = "fake:"
INSIDE: Final = (EMBEDDED, FAKE)
"""The runtimes inside the agent. Their pods end with it."""

DEFAULT: Final = "unix:///run/containerd/containerd.sock"
WELL_KNOWN: Final = (DEFAULT, "unix:///run/crio/crio.sock", "unix:///run/cri-dockerd.sock")


@dataclass(frozen=True, slots=True)
class EndpointChoice:
    """An endpoint and why it was chosen, as one sentence."""

    endpoint: str
    reason: str

    @property
    def inside(self) -> bool:
        """Whether it is a runtime inside the agent."""
        return self.endpoint in INSIDE


def choose_endpoint(named: str, *, standalone: bool, root: Path = Path("/")) -> EndpointChoice:
    """The runtime to use. ``named``: what flags or files configure, or empty; ``root``: where sockets are looked
    for."""
    if named:
        bare = named.rstrip("/")
        return EndpointChoice(bare if bare in INSIDE else named, f"{named}, as configured")
    if not standalone:
        return EndpointChoice(DEFAULT, f"{DEFAULT}, the default")
    for endpoint in WELL_KNOWN:
        if (root / endpoint.removeprefix("unix:///")).is_socket():
            return EndpointChoice(endpoint, f"{endpoint}, because its socket exists")
    return EndpointChoice(
        EMBEDDED,
        "the embedded one, because none is configured and no socket of containerd, CRI-O or cri-dockerd exists",
    )
