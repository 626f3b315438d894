"""The file source: static pods, and the objects they read, from a directory of manifests, or from a single file.

    directory ──entries──► changed files ──read, load──► FileState per file ──claim──► snapshot ──► Slot ──► mux

It lists the directory every ``file_check_seconds``, and at once when a watch reports a change. The watch only wakes it;
the listing decides. Unchanged files are not read. ``core.file_source`` decides the meaning of faulty, vanished and
duplicate pods; this module reads, remembers and publishes. A manifest that is removed and written again restarts its
pod (``sources/rewritten.py``).

Two observations are not trusted at once. A file that changed a moment ago and has faults or lost a pod may be half
written: it is read again when it has settled, and if it never does, it has a fault and nothing waits for it. A missing
directory may come back (a mount, a swap by rename): it counts as empty only after ``file_check_seconds``. So does
another directory without manifests in its place, which is what an unmount leaves.

Files are read one after another, so one file can delay the others, but not for long: reading may take
``READ_SECONDS_MAX``, and ``load_manifest`` as long again. After that the file has a fault, its thread is left alone,
and until that ends the others do not wait for this file again. The amount of parsing is bounded before
(``manifest_bytes_max``; the expansion of aliases in ``core.document.yaml_text``). A bug that a file provokes is a fault
of it, too: no single file ends the source.
"""

from __future__ import annotations

import logging
import math
import os
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

import trio

from trikubelet.core.file_source import (
    SETTLED_SECONDS,
    UNSETTLED_SECONDS_MAX,
    Claims,
    FileState,
    claim,
    fold_file,
    is_away,
    keep_what_runs,
    may_be_half_written,
    never_settles,
    why_ignored,
)
from trikubelet.core.timestamps import SECOND_NS
from trikubelet.kit.backoff import Backoff
from trikubelet.kit.failure_log import FailureLog
from trikubelet.kit.fault_barriers import FaultBarriers
from trikubelet.kit.slot import Slot
from trikubelet.kit.threads import StillRunning
from trikubelet.model.faults import Fault
from trikubelet.model.manifest_places import NO_STAMP, EntryKind
from trikubelet.sources.fault_log import FaultLog
from trikubelet.sources.reading import ManifestReader, bug_fault
from trikubelet.sources.rewritten import Rewritten
from trikubelet.sources.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from trikubelet.model.bounds import Bounds
    from trikubelet.model.manifest_places import DirectoryId, Entry, Listing, Stamp
    from trikubelet.ports import Clock, FileWatcher

log = logging.getLogger(__name__)

T = TypeVar("T")

READ_SECONDS_MAX = 30.0
"""Time in seconds for one file, or one listing of the directory. Only a hung file system takes longer; in parsing, only
a file that is far too large for a pod."""
_HANGS = "does its file system hang?"
_LOADS_LONG = "make it smaller, or split it"
LOAD_AGAIN_SECONDS = 600.0
"""Seconds until a file whose parsing timed out is parsed again unless it has changed: the machine may have been busy,
and the thread may still be running."""
_LOOKING_FOR_BEGUN = "find the pods that were begun before this start"
BURST_SECONDS = 0.05
"""Changes within that many seconds of a notification are read together."""


class ManifestFiles(Protocol):
    """The directory, or the file, on the host."""

    async def listing(self) -> Listing:
        """Return every name in the directory, or the file itself. Raises FileNotFoundError if there is neither,
        OSError, and StillRunning while an earlier call hangs."""
        ...

    async def read(self, path: str) -> bytes:
        """Return a file's content. Raises OSError; EFBIG for one larger than a manifest may be; and StillRunning as
        above."""
        ...


class BegunPods(Protocol):
    """The pods that an earlier agent began (``ports.PodDirectories``)."""

    async def pods_on_disk(self) -> frozenset[str]:
        """Return the UIDs that have a pod directory. Raises OSError, also if the disk does not answer."""
        ...


class Threads(Protocol):
    """Runs long computations (``kit.threads.ThreadPool``)."""

    async def run(self, work: Callable[[], T], key: str = "") -> T:
        """Run the work and return its result. Raises OSError if no thread can be started, and StillRunning while
        cancelled work of the same key runs."""
        ...


class FileSource:
    """Owns the state of the manifest directory: each file's state, and the file of each pod. Its only writer is its own
    task."""

    def __init__(
        self,
        path: str,
        node_name: str,
        files: ManifestFiles,
        begun_pods: BegunPods,
        watcher: FileWatcher,
        threads: Threads,
        clock: Clock,
        slot: Slot[Snapshot],
        bounds: Bounds,
    ) -> None:
        self._path = path
        self._disk = files
        self._begun_pods = begun_pods
        self._watcher = watcher
        self._reader = ManifestReader(node_name, threads, clock)
        self._clock = clock
        self._slot = slot
        self._bounds = bounds
        self._wake: Slot[None] = Slot()
        self._rewritten = Rewritten(path)
        self._stamps: dict[str, Stamp] = {}
        self._loads_long: dict[str, float] = {}  # when they may be parsed again
        self._states: dict[str, FileState] = {}
        self._unsettled: dict[str, float] = {}
        self._unsettled_since: dict[str, float] = {}
        self._held_since: float | None = None
        self._claims = Claims({}, {})
        self._has_changed = True  # the files have changed since their claims were settled
        self._own_faults: tuple[Fault, ...] = ()
        self._directory: DirectoryId | None = None  # the one that the files are from
        self._missing_since: float | None = None
        self._ignored: dict[str, str] = {}
        self._published: Snapshot | None = None
        self._never_good: set[str] = set()
        self._fault_log = FaultLog()
        self._failure_log = FailureLog()
        self._barriers = FaultBarriers(log, "%s: a bug in getting it from the disk; what it brought before stays")

    def files(self) -> Mapping[str, FileState]:
        """Return the content and faults of each file, by path; faults of the directory itself under its own path."""
        problem = {self._path: FileState(faults=self._own_faults)} if self._own_faults else {}
        return {**problem, **self._claims.states}

    def faults(self) -> tuple[Fault, ...]:
        """Return all current faults, file by file."""
        return tuple(fault for state in self.files().values() for fault in state.faults)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Follow the directory until cancelled. Started once it was listed."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            await self._look()
            task_status.started()
            while True:
                with trio.move_on_at(self._next_look()):
                    await self._wake.take()
                    await trio.sleep(BURST_SECONDS)
                await self._look()

    # ---- when to look ----

    def _next_look(self) -> float:
        due = trio.current_time() + self._bounds.file_check_seconds
        return min([due, *self._unsettled.values()])

    async def _watch(self) -> None:
        """Turn notifications into looks. If no watch is possible, the regular looks suffice until it is."""
        backoff = Backoff(min(1.0, self._bounds.file_check_seconds), self._bounds.file_check_seconds)
        said = ""
        while True:
            try:
                async with self._watcher.watch(self._path) as changes:
                    backoff.reset()
                    said = ""
                    self._wake.put(None)  # changes before the watch was set up
                    async for unlinked in changes:
                        self._rewritten.note(unlinked, self._known())
                        self._wake.put(None)
            except OSError as error:
                if str(error) != said and not isinstance(error, FileNotFoundError):
                    seconds = self._bounds.file_check_seconds
                    log.warning("Cannot watch %s: %s; looking there every %g s instead", self._path, error, seconds)
                if str(error) != said:
                    self._wake.put(None)  # it may have been removed
                said = str(error)
            await trio.sleep(backoff.next_seconds())

    # ---- looking ----

    async def _look(self) -> None:
        """Bring everything up to date with the disk, and publish the changes."""
        unlinked = self._rewritten.unlinked()  # before the listing: a name in that was written again
        listing = await self._in_time(self._disk.listing, self._path, _HANGS)
        if isinstance(listing, Fault):
            self._read_later()
            self._own_faults = (listing,)
            self._fault_log.tell(self.faults())
            return  # the earlier pods keep running
        wanted = [] if listing is None else self._manifests(listing.entries)
        if listing is None or is_away(self._known(), self._directory, listing.directory, wanted):
            self._read_later()
            await self._note_missing("does not exist" if listing is None else "is another directory, without manifests")
            return
        self._own_faults, self._missing_since, self._directory = (), None, listing.directory
        for path in self._known() - {entry.path for entry in wanted}:
            self._drop(path)
        for entry in wanted:
            again = entry.path in unlinked
            if again or self._stamps.get(entry.path) != entry.stamp or self._may_load_again(entry.path):
                self._take(entry, await self._read(entry), again=again)
        await self._publish()

    async def _in_time(self, ask: Callable[[], Awaitable[T]], path: str, if_slow: str) -> T | Fault | None:
        """Return the result; None if the file does not exist; else the fault, with ``if_slow`` as the remedy for a
        timeout."""
        with self._barriers.of(path) as barrier:
            try:
                with trio.fail_after(READ_SECONDS_MAX):
                    return await ask()
            except FileNotFoundError:
                return None
            except OSError as error:
                return Fault(path, None, "", f"cannot be read: {error.strerror or error}")
            except (trio.TooSlowError, StillRunning):
                return Fault(path, None, "", f"cannot be read within {READ_SECONDS_MAX:g} s", if_slow)
        assert barrier.fault is not None
        return bug_fault(path, barrier.fault)

    async def _read(self, entry: Entry) -> FileState | None:
        """Return the content of a file; None if it is gone again."""
        if entry.kind in (EntryKind.LOST, EntryKind.CIRCLE):
            fault = Fault(entry.path, None, "", f"a {entry.kind.value}", "fix or remove the link")
            return FileState(faults=(fault,))
        path = entry.path
        found: bytes | FileState | Fault | None = await self._in_time(partial(self._disk.read, path), path, _HANGS)
        if isinstance(found, bytes):
            found = await self._in_time(partial(self._reader.read, found, path), path, _LOADS_LONG)
            self._loads_long.pop(path, None)
            if isinstance(found, Fault) and found.remedy == _LOADS_LONG:
                self._loads_long[path] = trio.current_time() + LOAD_AGAIN_SECONDS
        return FileState(faults=(found,)) if isinstance(found, Fault) else found

    # ---- state ----

    def _may_load_again(self, path: str) -> bool:
        return self._loads_long.get(path, math.inf) <= trio.current_time()

    def _read_later(self) -> None:
        """Skip files that have not settled: they are read later, not at once again."""
        self._unsettled = dict.fromkeys(self._unsettled, trio.current_time() + SETTLED_SECONDS)

    def _manifests(self, entries: tuple[Entry, ...]) -> list[Entry]:
        for path in self._ignored.keys() - {entry.path for entry in entries}:
            del self._ignored[path]  # editors use a new name each time: only existing names are kept
        return [entry for entry in entries if self._is_manifest(entry)]

    def _is_manifest(self, entry: Entry) -> bool:
        name = os.path.basename(entry.path)
        if entry.path == self._path:  # a single file may have any name
            return True
        why = why_ignored(name)
        if why is None and entry.kind not in (EntryKind.FILE, EntryKind.LOST, EntryKind.CIRCLE):
            why = f"a {entry.kind.value}" if entry.kind is EntryKind.DIRECTORY else entry.kind.value
        if why is None:
            self._ignored.pop(entry.path, None)
            return True
        if self._ignored.get(entry.path) != why and not name.startswith("."):
            log.info("Ignoring %s: %s", entry.path, why)
        self._ignored[entry.path] = why
        return False

    def _take(self, entry: Entry, now: FileState | None, *, again: bool = False) -> None:
        """Record the content of a file. ``again``: it was removed and written again."""
        path = entry.path
        if now is None:
            self._drop(path)
            return
        before = self._states.get(path)
        age_seconds = (self._clock.now_ns() - entry.stamp.changed_ns) / SECOND_NS
        if entry.kind is EntryKind.FILE and may_be_half_written(before, now, age_seconds):
            time = trio.current_time()
            self._unsettled[path] = time + SETTLED_SECONDS - age_seconds
            if time < self._unsettled_since.setdefault(path, time) + UNSETTLED_SECONDS_MAX:
                return
            now = never_settles(path)
        else:
            self._settled(path)
        if not now.faults:
            self._never_good.discard(path)
        elif self._published is None:
            self._never_good.add(path)
        counted = self._claims.states.get(path, FileState()).pods if self._published is not None else ()
        self._states[path] = folded = fold_file(path, before, now, counted)
        if again and not now.faults:  # a faulty manifest ends no running pod: it restarts when the manifest is fixed
            self._rewritten.written(path)
        self._has_changed = True
        # A file that could not be read may be readable without having changed.
        unread = bool(folded.faults) and not (now.pods or now.objects) and all(f.line is None for f in folded.faults)
        self._stamps[path] = NO_STAMP if unread and path not in self._loads_long else entry.stamp

    def _known(self) -> set[str]:
        return self._states.keys() | self._unsettled.keys()

    def _drop(self, path: str) -> None:
        self._settled(path)
        self._has_changed = self._states.pop(path, None) is not None or self._has_changed
        self._stamps.pop(path, None)
        self._loads_long.pop(path, None)
        self._rewritten.forget(path)
        self._never_good.discard(path)

    def _settled(self, path: str) -> None:
        self._unsettled.pop(path, None)
        self._unsettled_since.pop(path, None)

    async def _note_missing(self, why: str) -> None:
        """Log a missing directory, which is no fault, because it may come back. Its earlier faults are dropped."""
        now = trio.current_time()
        self._own_faults = ()
        if self._missing_since is None:
            self._missing_since = now
            log.info("%s %s; waiting for it", self._path, why)
        if now >= self._missing_since + self._bounds.file_check_seconds:
            for path in self._known():
                self._drop(path)
            await self._publish()
        else:
            self._fault_log.tell(self.faults())

    async def _publish(self) -> None:
        is_settled = True
        if self._has_changed:
            self._claims, is_settled = await self._settle_claims()
            self._has_changed = not is_settled
        self._fault_log.tell(self.faults())
        if self._published is None and (not is_settled or self._is_held()):
            return
        now = Snapshot(
            self._claims.pods,
            tuple(sorted(self._never_good)),
            objects=self._claims.objects,
            changed_ns=self._changed_ns(),
            lives=self._rewritten.lives(self._claims.states),
        )
        if self._published is None or not _same(now, self._published):
            self._published = now
            self._slot.put(now)

    def _changed_ns(self) -> dict[str, int]:
        stamps = ((state, self._stamps.get(path, NO_STAMP)) for path, state in self._claims.states.items())
        known = ((state, stamp) for state, stamp in stamps if stamp != NO_STAMP)
        return {pod.metadata.uid: stamp.changed_ns for state, stamp in known for pod in state.pods}

    async def _settle_claims(self) -> tuple[Claims, bool]:
        """Return the file of each name, and whether that is final. Before the first snapshot no file has a name: the
        claims are settled anew each time, because a half-written file that is read late may be the one whose pod runs.

        The runtime would report the running pods, but not while it is down, and then all pods would wait. Their
        directories are available at once, and a pod has one from before its first start until after its end: a rejected
        duplicate never has one. If the disk does not show them, no pod can begin there either, so waiting loses
        nothing; but if no two files have the same pod, there is nothing to wait for.
        """
        if self._published is not None:
            return keep_what_runs(claim(self._states, self._claims.owners), self._published.pods), True
        try:
            begun = await self._begun_pods.pods_on_disk()
        except OSError as error:
            if self._failure_log.may_log(_LOOKING_FOR_BEGUN):
                log.warning("Cannot %s: %s", _LOOKING_FOR_BEGUN, error.strerror or error)
            claims = claim(self._states, {})
            return claims, all(one.pods == self._states[path].pods for path, one in claims.states.items())
        return claim(self._states, {}, begun), True

    def _is_held(self) -> bool:
        """True while the first snapshot waits, because a snapshot without a file would make its pods orphans. The wait
        is bounded, whether one file never settles or always another one; then those count as faulty."""
        if not self._unsettled:
            return False
        time = trio.current_time()
        self._held_since = time if self._held_since is None else self._held_since
        if time < self._held_since + UNSETTLED_SECONDS_MAX:
            return True
        self._never_good.update(self._unsettled)
        return False

    def __repr__(self) -> str:
        return f"<FileSource {self._path}: {len(self._states)} files, {len(self.faults())} faults>"


def _same(one: Snapshot, other: Snapshot) -> bool:
    brought, known = (*one.pods, *one.objects), (*other.pods, *other.objects)
    is_same = one.invalid_manifests == other.invalid_manifests and one.lives == other.lives
    return is_same and [*map(id, brought)] == [*map(id, known)]
