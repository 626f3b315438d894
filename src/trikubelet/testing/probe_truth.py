"""The consequences of the results of one agent's probes: the simulation's oracle for probes.

It keeps every result and evaluates all of them, while the agent folds each into its state; the two have only the
thresholds in common.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.model.k8s import Container, Probe


class Answers:
    """Owns the containers' answers to one agent, by container id and kind of probe, oldest first."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], list[bool]] = {}

    def heard(self, container_id: str, kind: str, well: bool) -> None:
        """A container answered (``health.Listener``)."""
        self._given.setdefault((container_id, kind), []).append(well)

    def must_die(self, container: Container, container_id: str) -> bool:
        """True if the container's liveness or startup probe reached its failure threshold."""
        return False in self._decided(container.liveness_probe, container_id, "liveness") or self._decided(
            container.startup_probe, container_id, "startup"
        )[:1] == [False]

    def has_started(self, container: Container, container_id: str) -> bool:
        """True if this agent's startup probe of the container has succeeded."""
        return self._decided(container.startup_probe, container_id, "startup")[:1] == [True]

    def is_ready(self, container: Container, container_id: str, *, had_started: bool = False) -> bool | None:
        """Return whether the container has started and is ready; None if nothing was decided yet. ``had_started``: an
        earlier agent's startup probe succeeded, which may have recorded it."""
        started = self._decided(container.startup_probe, container_id, "startup")[:1] or [True] * had_started
        ready = self._decided(container.readiness_probe, container_id, "readiness")[-1:]
        asked = (container.startup_probe is None or started) and (container.readiness_probe is None or ready)
        return all(started + ready) if asked else None

    def _decided(self, probe: Probe | None, container_id: str, kind: str) -> list[bool]:
        """Each result that reached its threshold, with those before it."""
        given = self._given.get((container_id, kind), [])
        if probe is None:
            return []
        found = []
        for end, well in enumerate(given, 1):
            needed = (probe.success_threshold or 1) if well else (probe.failure_threshold or 3)
            if given[max(0, end - needed) : end] == [well] * needed:
                found.append(well)
        return found


def is_ready(heard: Sequence[Answers], container: Container, container_id: str) -> bool | None:
    """Return whether the container is ready by the results of the last agent that had enough of them; None if none did.
    The agents are in the order in which they ran."""
    for place, answers in reversed(list(enumerate(heard))):
        had_started = any(earlier.has_started(container, container_id) for earlier in heard[:place])
        ready = answers.is_ready(container, container_id, had_started=had_started)
        if ready is not None:
            return ready
    return None
