"""The conclusions of the probes of one pod, and the containers they are about.

The pod's worker says what was observed (``look``); the tasks of the probes record their results (``record_result``).
Both are synchronous. A container that is new begins with nothing concluded, whatever was concluded about the one
before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import trio

from trikubelet.core.actions import Verdict, Verdicts
from trikubelet.core.probes import (
    ProbeKind,
    SavedProbeResults,
    begin,
    end,
    failures_count_after,
    first_delay,
    is_concluded,
    kept,
    probes_of,
    record_result,
)
from trikubelet.model.runtime import ContainerState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trikubelet.core.probes import Track
    from trikubelet.model import k8s
    from trikubelet.model.runtime import PodObservation

Key = tuple[ProbeKind, str]
"""A probe of a pod: its kind, and the name of its container."""


class Subject(NamedTuple):
    """A container that runs and is probed. ``first_due`` is when its first probe may come, ``counts_from`` when the
    first failure counts, both by Trio's clock."""

    container: k8s.Container
    probe: k8s.Probe
    container_id: str
    first_due: float
    counts_from: float


class PodProbes:
    """Owns what is concluded about the containers of one pod. ``changed`` is called when that means something new for
    the pod."""

    def __init__(
        self,
        pod: k8s.Pod,
        shares: Mapping[Key, float],
        changed: Callable[[], None],
        noted: Mapping[str, SavedProbeResults] | None = None,
    ) -> None:
        """``shares``, in [0, 1), say when in a period those are probed first that were found running; ``noted``: what
        an earlier agent had concluded, by containers' names."""
        self.pod = pod
        self.address = ""
        self.is_ending = False
        self.verdicts = Verdicts()
        self._began = trio.current_time()
        self._shares = shares
        self._changed = changed
        self._noted = noted or {}
        self._wakeups: dict[Key, trio.Event] = {}
        self._tracks: dict[Key, Track] = {}
        self._subjects: dict[Key, Subject] = {}
        self._stopped: frozenset[str] = frozenset()  # by id: those that may still be observed as they were before

    def look(
        self,
        pod: k8s.Pod,
        observed: PodObservation,
        shown: Mapping[str, k8s.ContainerStatus],
        now_ns: int,
    ) -> None:
        """The pod was observed. ``shown``: its container statuses as last known, by name; ``now_ns``: wall time."""
        self.pod = pod
        self._stopped &= {status.id for status in observed.running}
        known_seconds = trio.current_time() - self._began
        subjects: dict[Key, Subject] = {}
        for kind, container in probes_of(pod):
            key = (kind, container.name)
            status = observed.latest(container.name)
            probe = kind.probe_of(container)
            if status is None or probe is None or status.state is not ContainerState.RUNNING:
                continue
            if status.id in self._stopped:
                continue
            ran_seconds = max(0.0, (now_ns - status.started_at) / 1e9)
            track, subject = self._tracks.get(key), self._subjects.get(key)
            if track is None or track.container_id != status.id:
                known = shown.get(container.name) or self._noted.get(container.name)
                before = kept(kind, known, status.id, ran_seconds, known_seconds)
                self._tracks[key] = self._ended(kind, begin(kind, status.id, before))
            if subject is None or subject.container_id != status.id:
                now = trio.current_time()
                first_due = now + first_delay(kind, probe, ran_seconds, known_seconds, self._shares.get(key, 0.0))
                counts_from = now + failures_count_after(kind, probe) - ran_seconds
                subject = Subject(container, probe, status.id, first_due, counts_from)
            subjects[key] = subject._replace(container=container, probe=probe)
        if subjects != self._subjects:
            self._subjects = subjects
            self._publish_verdicts()

    def record_result(self, key: Key, container_id: str, result: Verdict) -> None:
        """A probe of the container of that id has a result. One about a container that is gone, or that counts no more,
        is dropped."""
        track, subject = self._tracks[key], self._subjects.get(key)
        if subject is None or container_id != track.container_id or track.on_hold:
            return
        if result is Verdict.FAILURE and trio.current_time() < subject.counts_from:
            return
        kind, _ = key
        updated = self._tracks[key] = record_result(kind, subject.probe, track, result)
        if updated.verdict is not track.verdict:
            self._publish_verdicts()
            if kind is not ProbeKind.LIVENESS or updated.verdict is Verdict.FAILURE:
                self._changed()
        elif kind is ProbeKind.READINESS and updated is not track and self._refutes_note(subject, updated):
            self._changed()

    def _refutes_note(self, subject: Subject, updated: Track) -> bool:
        """True if the container shows for the first time that an earlier agent's note is wrong. That note was not
        believed, so no verdict changes; but it stands until another is written, and a later agent may believe it."""
        noted = self._noted.get(subject.container.name)
        if noted is None or noted.container_id != updated.container_id or not is_concluded(subject.probe, updated):
            return False
        if noted.ready is (updated.verdict is Verdict.SUCCESS):
            return False
        self._noted = {name: one for name, one in self._noted.items() if name != subject.container.name}
        return True

    def stopped(self, container_id: str) -> None:
        """The container of that id was stopped by us: it is probed no more, and serves no traffic."""
        self._stopped |= {container_id}
        self._subjects = {key: one for key, one in self._subjects.items() if one.container_id != container_id}
        served = self.verdicts.readiness.get(container_id) is Verdict.SUCCESS
        for key, track in self._tracks.items():
            if key[0] is ProbeKind.READINESS and track.container_id == container_id:
                self._tracks[key] = begin(ProbeKind.READINESS, container_id)
        self._publish_verdicts()
        if served:
            self._changed()

    def results_to_save(self) -> dict[str, SavedProbeResults]:
        """Return, by name, the facts about each container for the next agent."""
        ready, started = self.verdicts.readiness, self.verdicts.startup
        return {
            name: SavedProbeResults(id_, ready.get(id_) is Verdict.SUCCESS, started.get(id_) is Verdict.SUCCESS)
            for name, id_ in {name: track.container_id for (_, name), track in self._tracks.items()}.items()
        }

    def end(self) -> None:
        """The pod is being stopped: only readiness is still probed. Idempotent."""
        if not self.is_ending:
            self.is_ending = True
            self._tracks = {key: self._ended(key[0], track) for key, track in self._tracks.items()}
            self._publish_verdicts()

    def subject_to_probe(self, key: Key) -> Subject | None:
        """The container to probe, None while there is none: startup until the container has started, the others
        then."""
        subject = self._subjects.get(key)
        if subject is None or self._tracks[key].on_hold:
            return None
        has_started = self.verdicts.is_started(subject.container, subject.container_id)
        return None if has_started is (key[0] is ProbeKind.STARTUP) else subject

    def wakeup(self, key: Key) -> trio.Event:
        """An event that is set when another container may be to probe, or none; in place of the one the probe had
        before."""
        event = self._wakeups[key] = trio.Event()
        return event

    def _ended(self, kind: ProbeKind, track: Track) -> Track:
        return end(kind, track) if self.is_ending else track

    def _publish_verdicts(self) -> None:
        """Verdicts changed, or are about other containers: replace what is read, and wake the probes."""
        found: dict[ProbeKind, dict[str, Verdict]] = {kind: {} for kind in ProbeKind}
        for (kind, _), track in self._tracks.items():
            found[kind][track.container_id] = track.verdict
        self.verdicts = Verdicts(
            found[ProbeKind.LIVENESS], startup=found[ProbeKind.STARTUP], readiness=found[ProbeKind.READINESS]
        )
        for event in self._wakeups.values():
            event.set()
