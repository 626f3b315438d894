"""Reads a manifest off the event loop, and turns a bug in reading it into a fault of the manifest.

A manifest is untrusted text. If reading it provokes a bug, that is a fault like any other: its earlier content stays,
and other manifests are read.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from trikubelet.core.file_source import FileState, state_of
from trikubelet.core.manifest import load_manifest
from trikubelet.core.timestamps import rfc3339
from trikubelet.kit.barrier import message_of
from trikubelet.kit.fault_barriers import FaultBarriers
from trikubelet.kit.threads import StillRunning
from trikubelet.model.faults import Fault

if TYPE_CHECKING:
    from trikubelet.ports import Clock
    from trikubelet.sources.file import Threads

log = logging.getLogger(__name__)


class ManifestReader:
    """Reads manifests for one source."""

    def __init__(self, node_name: str, threads: Threads, clock: Clock) -> None:
        self._node_name = node_name
        self._threads = threads
        self._clock = clock
        self._barriers = FaultBarriers(log, "%s: a bug in reading it; its earlier content stays")

    async def read(self, octets: bytes, origin: str) -> FileState:
        """Return the content of a manifest; ``origin``: its path or URL, under which its faults are reported. Raises
        OSError if there is no thread for it now, and StillRunning while an earlier cancelled reading of it runs:
        neither is the manifest's fault or a bug."""
        seen = rfc3339(self._clock.now_ns())
        with self._barriers.of(origin) as barrier:
            try:
                load = partial(load_manifest, octets, origin, self._node_name, seen)
                return state_of(await self._threads.run(load, f"load {origin}"))
            except (OSError, StillRunning) as error:
                unread = error
        if barrier.fault is None:
            raise unread
        return FileState(faults=(bug_fault(origin, barrier.fault),))


def bug_fault(origin: str, bug: Exception) -> Fault:
    """Return the fault of a manifest, a directory of them or a URL that provoked a bug."""
    problem = f"cannot be read because of a bug in the agent: {type(bug).__name__}: {message_of(bug)}"
    return Fault(origin, None, "", problem, "report it with the manifest; the log has more")
