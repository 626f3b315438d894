"""The choice of the container runtime: the configured one, else the recorded one, else one that answers, else the
embedded one.

    --container-runtime-endpoint=unix:///…   that one; the agent waits for it
    --container-runtime-endpoint=embedded:   the runtime inside the agent
    --container-runtime-endpoint=fake:       the simulated runtime inside the agent, which runs nothing
    none configured                          upstream's default socket; with --standalone, the runtime that the root
                                             directory has recorded, else the first well-known socket that answers,
                                             else the embedded runtime

The agent waits for a recorded runtime, too: at boot, containerd may start after the agent. The choice is logged with
its reason and with the rejected sockets, because a node that silently uses another runtime than its operator thinks is
worse than one that does not start.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from trikubelet.cri.endpoint import connect_failure, socket_path
from trikubelet.kit.unix_connection import connected
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

EMBEDDED: Final = "embedded:"
FAKE: Final = "fake:"
INSIDE: Final = (EMBEDDED, FAKE)
"""The runtimes inside the agent. Their pods end with it."""

DEFAULT: Final = "unix:///run/containerd/containerd.sock"
WELL_KNOWN: Final = (DEFAULT, "unix:///run/crio/crio.sock", "unix:///run/cri-dockerd.sock")


class RuntimeRecord(Frozen):
    """The runtime that a root directory has recorded. ``has_pods``: the directory has pods of it."""

    endpoint: str
    root_dir: Path
    has_pods: bool


class EndpointChoice(Frozen):
    """An endpoint and why it was chosen, as one sentence. ``passed_over``: the existing sockets that were not chosen,
    each with its reason."""

    endpoint: str
    why: str
    passed_over: tuple[str, ...] = ()

    @property
    def inside(self) -> bool:
        """True if it is a runtime inside the agent."""
        return self.endpoint in INSIDE

    @property
    def reason(self) -> str:
        """Return the choice for the log, with the rejected sockets."""
        return f"{self.why} (passed over: {'; '.join(self.passed_over)})" if self.passed_over else self.why


def choose_endpoint(
    named: str, *, standalone: bool, records: Sequence[RuntimeRecord] = (), root: Path = Path("/")
) -> EndpointChoice:
    """Return the runtime to use. ``named``: the configured endpoint, or empty; ``records``: those of the root
    directories that the agent may have, the preferred one first; ``root``: the directory to look for sockets in."""
    if named:
        bare = named.rstrip("/")
        return EndpointChoice(bare if bare in INSIDE else named, f"{named}, as configured")
    if not standalone:
        return EndpointChoice(DEFAULT, f"{DEFAULT}, the default")
    passed_over: dict[str, str] = {}
    for record in records:
        problem = why_silent(record.endpoint, root)
        if record.has_pods or not isinstance(problem, PermissionError):
            return EndpointChoice(record.endpoint, f"{record.endpoint}, recorded in {record.root_dir}")
        passed_over[record.endpoint] = _in_words(record.endpoint, problem)
    for endpoint in WELL_KNOWN:
        match why_silent(endpoint, root):
            case None:
                return EndpointChoice(endpoint, f"{endpoint}, because it answers", (*passed_over.values(),))
            case FileNotFoundError() | NotADirectoryError():
                pass
            case problem:
                passed_over[endpoint] = _in_words(endpoint, problem)
    why = "the embedded one, because none is configured and no socket of containerd, CRI-O or cri-dockerd answers"
    return EndpointChoice(EMBEDDED, why, (*passed_over.values(),))


def why_silent(endpoint: str, root: Path = Path("/")) -> OSError | None:
    """Return why no connection to the runtime is possible now; None if one is, or if the runtime is inside the agent.
    Raises ValueError for an invalid endpoint."""
    if endpoint in INSIDE:
        return None
    try:
        connected(root / socket_path(endpoint).removeprefix("/")).close()
    except BlockingIOError:  # its queue is full, so it runs and is busy
        return None
    except OSError as error:
        return error
    return None


def _in_words(endpoint: str, problem: OSError) -> str:
    return connect_failure(socket_path(endpoint), problem)
