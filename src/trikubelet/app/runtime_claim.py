"""One node agent per container runtime: the agent does not start next to another one.

Each agent would treat the other's pods as orphans. The evidence is a process (``app.neighbours``), or the lock of a
file next to the runtime's socket, which also an agent in another PID namespace holds. The kernel releases the lock when
its process ends, however it ends. If the file cannot be made, as for a user who may not write there, the processes are
all the evidence. An agent that holds the lock searches for processes all the same, because another agent may have been
unable to lock the file.

An agent that shares the runtime takes no lock. Otherwise it would keep the first agent from starting again after a
crash, although the operator gave the flag to the second one.
"""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trikubelet.app.endpoint import INSIDE
from trikubelet.app.lock import take_lock
from trikubelet.app.neighbours import agents_on, kubelets_on
from trikubelet.cri.endpoint import socket_path
from trikubelet.host.processes import command_line
from trikubelet.model.errors import StartFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logging.getLogger(__name__)

LOCK_SUFFIX: Final = ".trikubelet.lock"
SHARE_RUNTIME: Final = "--share-runtime"
_COMMAND_CHARS_MAX: Final = 120


class RuntimeInUse(StartFailed):
    """Another node agent uses the runtime. ``other``: its process, and how it is known, as text."""

    def __init__(self, other: str, endpoint: str) -> None:
        super().__init__(
            f"cannot start on the container runtime {endpoint}: {other} uses it, and each would end the other's pods "
            f"(stop it, give another --container-runtime-endpoint, or {SHARE_RUNTIME} to start all the same)"
        )
        self.other = other


@contextmanager
def claimed_runtime(endpoint: str, *, shares: bool, beside_sharing: bool = False) -> Iterator[None]:
    """Hold the lock next to the runtime's socket. Raises RuntimeInUse, naming the evidence, if another node agent uses
    the runtime, and StartFailed for an invalid endpoint. ``shares``: this one starts all the same, without the lock;
    ``beside_sharing``: it also starts next to agents that share the runtime, because it leaves their pods alone."""
    if shares or endpoint in INSIDE:
        yield
        return
    file = _locked(endpoint)
    try:
        _refuse_beside_others(endpoint, beside_sharing=beside_sharing)
        yield
    finally:
        if file >= 0:
            os.close(file)


def _locked(endpoint: str) -> int:
    """Lock the file and return it, or -1 without a lock. Raises RuntimeInUse if another agent holds it, and
    StartFailed."""
    try:
        path = Path(os.path.realpath(socket_path(endpoint)) + LOCK_SUFFIX)
    except ValueError as error:
        raise StartFailed(f"containerRuntimeEndpoint: {error}") from error
    try:
        return take_lock(path)
    except BlockingIOError as held:
        raise RuntimeInUse(f"process {held.strerror}, an agent that holds {path},", endpoint) from held
    except OSError as error:
        log.debug("No lock next to the socket of the container runtime: %s: %s", path, error.strerror)
        return -1


def _refuse_beside_others(endpoint: str, *, beside_sharing: bool) -> None:
    """Raise RuntimeInUse if a process uses the runtime. Unreadable evidence never stops the start, nor does it hide
    other evidence."""
    others: list[tuple[int, str]] = []
    with suppress(OSError):
        others += [(process, "an agent") for process in agents_on(endpoint, with_sharing=not beside_sharing)]
    with suppress(OSError):
        others += [(process, "a kubelet") for process in kubelets_on(endpoint)]
    for process, kind in others:
        command = " ".join(command_line(process))[:_COMMAND_CHARS_MAX]
        raise RuntimeInUse(f"process {process}, {kind} ({command}),", endpoint)
