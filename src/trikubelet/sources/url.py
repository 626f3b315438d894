"""The http source: static pods from a URL (``staticPodURL``, ``--manifest-url``).

Asked every ``http_check_seconds``. A body that did not change is not read again. A server that cannot be reached, says
anything but 200 or sends nothing, or only comments, changes nothing: its last good answer counts on, and until the
first one this source has not spoken. Who has no pods for the node says so, with an empty PodList. A body with faults is
treated as a faulty file is, by ``core.file_source``. One that came without its length and lost a pod is believed when
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
"""One request and its whole answer (upstream: 10 s)."""
FAILURES_LOUD = 3
"""Failures in a row that are worth a warning; the others only speak to who listens for details (upstream: 3)."""
OK = 200
FOR_NO_PODS = "for no pods send an empty PodList"


class ManifestFetch(Protocol):
    """One GET of the manifest URL."""

    async def fetch(self) -> ManifestAnswer:
        """The answer. Raises OSError when there is none, one too large, or one known to be cut."""
        ...


class UrlSource:
    """Owns what the manifest URL says, and how often in a row it did not. Its only writer is its own task."""

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
        self._barriers = FaultBarriers(log, "%s: a bug in fetching it; what it brought before stays")

    def files(self) -> Mapping[str, FileState]:
        """What the URL contributes and what is wrong with it."""
        return {self._url: replace(self._state, faults=self.faults())}

    def faults(self) -> tuple[Fault, ...]:
        """Everything that is wrong now."""
        return (*self._own_faults, *self._state.faults)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Follow the URL until cancelled. Started at once: a server may take its time."""
        task_status.started()
        async for _ in Every(self._bounds.http_check_seconds):
            answer = await self._ask()
            fault = answer if isinstance(answer, Fault) else await self._take(answer)
            if fault is None:
                self._note_success()
            else:
                self._note_failure(fault)

    async def _ask(self) -> ManifestAnswer | Fault:
        """A good answer, or why there is none."""
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
            return self._fault(f"cannot be fetched: the server says {answer.status} where 200 is expected")
        if not answer.body:
            return self._fault("cannot be fetched: the server sent nothing", FOR_NO_PODS)
        return answer

    def _fault(self, problem: str, remedy: str = "") -> Fault:
        return Fault(self._url, None, "", problem, remedy)

    async def _take(self, answer: ManifestAnswer) -> Fault | None:
        """What the answer says counts from now on; or why it does not, and then the same one is read again next
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
            problem = "lost a pod or an object, and came without its length: believed when the next answer is the same"
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
        # Who waits for a fourth is to know that none comes; what is wrong stays where the pods are shown.
        last = "; the next are not logged, `trikubelet get pods` shows them" if self._failures == FAILURES_LOUD else ""
        log.log(level, "Manifest URL: %s (attempt %d without success%s)", fault, self._failures, last)

    def _note_success(self) -> None:
        if self._failures:
            log.info("Manifest URL %s answers again after %d failures", self._url, self._failures)
        self._failures, self._own_faults = 0, ()

    def __repr__(self) -> str:
        return f"<UrlSource {self._url}: {len(self._state.pods)} pods, {self._failures} failures in a row>"


def without_password(url: str) -> str:
    """The URL as it may be shown, and as it names the pods: a password in it is nobody's business, and changing it
    must not replace every pod."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
