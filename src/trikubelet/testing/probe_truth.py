"""What follows from the answers that one agent's probes were given: the simulation's oracle for probes.

It keeps every answer and looks back at all of them, where the agent folds each into what it knows; the two have nothing
in common but the thresholds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.model.k8s import Container, Probe


class Answers:
    """Owns what containers answered to one agent, by container id and kind of probe, oldest first."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], list[bool]] = {}

    def heard(self, container_id: str, kind: str, well: bool) -> None:
        """A container answered (``health.Listener``)."""
        self._given.setdefault((container_id, kind), []).append(well)

    def must_die(self, container: Container, container_id: str) -> bool:
        """Whether the container's liveness or startup probe failed as often in a row as it takes."""
        return False in self._decided(container.liveness_probe, container_id, "liveness") or self._decided(
            container.startup_probe, container_id, "startup"
        )[:1] == [False]

    def has_started(self, container: Container, container_id: str) -> bool:
        """Whether the container has told this agent that it has started."""
        return self._decided(container.startup_probe, container_id, "startup")[:1] == [True]

    def is_ready(self, container: Container, container_id: str, *, had_started: bool = False) -> bool | None:
        """Whether the container has started and serves; None where nothing was decided yet. ``had_started``: whether
        an earlier agent was told so, which may have noted it."""
        started = self._decided(container.startup_probe, container_id, "startup")[:1] or [True] * had_started
        ready = self._decided(container.readiness_probe, container_id, "readiness")[-1:]
        asked = (container.startup_probe is None or started) and (container.readiness_probe is None or ready)
        return all(started + ready) if asked else None

    def _decided(self, probe: Probe | None, container_id: str, kind: str) -> list[bool]:
        """Each answer that was, with those before it, as many in a row as its threshold says."""
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
    """Whether the container serves by what the last agent heard that heard enough; None where none did. The agents
    stand in the order in which they lived."""
    for place, answers in reversed(list(enumerate(heard))):
        had_started = any(earlier.has_started(container, container_id) for earlier in heard[:place])
        ready = answers.is_ready(container, container_id, had_started=had_started)
        if ready is not None:
            return ready
    return None
