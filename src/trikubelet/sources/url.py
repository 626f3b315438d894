"""The http source: static pods from a URL (``staticPodURL``, ``--manifest-url``).

It is fetched every ``http_check_seconds``. An unchanged body is not read again. A failure (no connection, a status
other than 200, an empty body, or only comments) changes nothing: the last good answer stays in use, and before the
first one this source has not reported. A server without pods for the node sends an empty PodList. A body with faults is
treated like a faulty file, by ``core.file_source``. A body that came without its length and lost a pod is trusted when
the next one is the same: it may have been cut between two documents.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

import trio

from trikubelet.core.file_source import FileState, fold_file, has_lost
from trikubelet.kit.every import Every
from trikubelet.kit.fault_barriers import FaultBarriers
from trikubelet.model.faults import Fault
from trikubelet.sources.fault_log import FaultLog
from trikubelet.sources.reading import ManifestReader, bug_fault
from trikubelet.sources.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.kit.slot import Slot
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.manifest_places import ManifestAnswer
    from trikubelet.ports import Clock
    from trikubelet.sources.file import Threads

log = logging.getLogger(__name__)

FETCH_SECONDS_MAX = 10.0
"""Time for one request and its whole answer, in seconds (upstream: 10 s)."""
FAILURES_LOUD = 3
"""Consecutive failures that are logged as warnings; later ones only in the debug log (upstream: 3)."""
OK = 200
FOR_NO_PODS = "for no pods send an empty PodList"


class ManifestFetch(Protocol):
    """A GET of the manifest URL."""

    async def fetch(self) -> ManifestAnswer:
        """Return the answer. Raises OSError if there is none, one too large, or one known to be cut."""
        ...


class UrlSource:
    """Owns the content of the manifest URL, and its number of consecutive failures. Its only writer is its own task."""

    def __init__(
        self,
        url: str,
        node_name: str,
        fetch: ManifestFetch,
        threads: Threads,
        clock: Clock,
        slot: Slot[Snapshot],
        bounds: Bounds,
    ) -> None:
        self._url = without_password(url)
        self._fetch = fetch
        self._reader = ManifestReader(node_name, threads, clock)
        self._slot = slot
        self._bounds = bounds
        self._body = b""
        self._doubted: bytes | None = None
        self._state = FileState()
        self._own_faults: tuple[Fault, ...] = ()
        self._failures = 0
        self._was_good = False
        self._fault_log = FaultLog()
        self._barriers = FaultBarriers(log, "%s: a bug in fetching it; its earlier content stays")

    def files(self) -> Mapping[str, FileState]:
        """Return the content of the URL and its faults."""
        return {self._url: replace(self._state, faults=self.faults())}

    def faults(self) -> tuple[Fault, ...]:
        """Return all current faults."""
        return (*self._own_faults, *self._state.faults)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Follow the URL until cancelled. Started at once, because a server may be slow."""
        task_status.started()
        async for _ in Every(self._bounds.http_check_seconds):
            answer = await self._ask()
            fault = answer if isinstance(answer, Fault) else await self._take(answer)
            if fault is None:
                self._note_success()
            else:
                self._note_failure(fault)

    async def _ask(self) -> ManifestAnswer | Fault:
        """Return a good answer, or the fault."""
        with self._barriers.of(self._url) as barrier:
            return await self._asked()
        assert barrier.fault is not None
        return bug_fault(self._url, barrier.fault)

    async def _asked(self) -> ManifestAnswer | Fault:
        try:
            with trio.fail_after(FETCH_SECONDS_MAX):
                answer = await self._fetch.fetch()
        except OSError as error:
            return self._fault(f"cannot be fetched: {error.strerror or error}")
        except trio.TooSlowError:
            return self._fault(f"cannot be fetched: no answer within {FETCH_SECONDS_MAX:g} s")
        if answer.status != OK:
            return self._fault(f"cannot be fetched: the server answers {answer.status} instead of 200")
        if not answer.body:
            return self._fault("cannot be fetched: the server sent nothing", FOR_NO_PODS)
        return answer

    def _fault(self, problem: str, remedy: str = "") -> Fault:
        return Fault(self._url, None, "", problem, remedy)

    async def _take(self, answer: ManifestAnswer) -> Fault | None:
        """Start to use the answer. Return the fault if it is not usable, and then the same answer is read again next
        time."""
        body = answer.body
        if body == self._body:
            self._doubted = None
            return None
        try:
            now = await self._reader.read(body, self._url)
        except OSError as error:
            return self._fault(f"cannot be read: {error.strerror or error}")
        if now.is_blank:
            return self._fault("the server sent nothing but blanks or comments", FOR_NO_PODS)
        if not answer.has_length and body != self._doubted and not now.faults and has_lost(self._state, now):
            self._doubted = body
            problem = "lost a pod or an object, and came without its length: used once the next answer is the same"
            log.warning("Manifest URL %s %s (have the server send Content-Length)", self._url, problem)
            return None
        self._body, self._doubted = body, None
        self._state = fold_file(self._url, self._state, now)
        self._was_good = self._was_good or not now.faults
        self._fault_log.tell(self._state.faults)
        self._slot.put(Snapshot(self._state.pods, () if self._was_good else (self._url,), objects=self._state.objects))
        return None

    def _note_failure(self, fault: Fault) -> None:
        self._failures += 1
        self._own_faults = (fault,)
        level = logging.WARNING if self._failures <= FAILURES_LOUD else logging.DEBUG
        # A reader who waits for a fourth line must know that none comes; the faults stay visible with the pods.
        last = "; the next are not logged, `trikubelet get pods` shows them" if self._failures == FAILURES_LOUD else ""
        log.log(level, "Manifest URL: %s (attempt %d without success%s)", fault, self._failures, last)

    def _note_success(self) -> None:
        if self._failures:
            log.info("Manifest URL %s answers again after %d failures", self._url, self._failures)
        self._failures, self._own_faults = 0, ()

    def __repr__(self) -> str:
        return f"<UrlSource {self._url}: {len(self._state.pods)} pods, {self._failures} failures in a row>"


def without_password(url: str) -> str:
    """Return the URL for messages and for the pods' source: a password in it must not be disclosed, and changing it
    must not replace every pod."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
