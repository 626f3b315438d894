"""The witness: violations by an agent in a simulated world.

A *violation* does not stop the agent, but ends the simulation. That a pod has at most one ready sandbox, and a
container at most one running instance, is the ``World``'s own rule; ``testing.observer`` checks the rest for each
agent. The witness outlives the agents: it has the violations, and the records of one agent that the next is checked
against.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trikubelet.model.k8s import Pod
    from trikubelet.testing.probe_truth import Answers
    from trikubelet.testing.scenario import Wanted
    from trikubelet.testing.world import Command, World

ROUNDING_SECONDS = 0.01
"""The tolerance of computed times."""


class Witness:
    """Owns the violations, oldest first. ``over``: UIDs whose terminal phase was written to an API server; ``unique``:
    those that are never desired again once they are not; ``answers``: the probe results of each agent, the last one's
    last: the next may rely on an earlier one's; ``attached``: the UID and name of each ephemeral container that was
    started; ``published``: the pods as an API server has them, if there is one."""

    def __init__(self, world: World, wanted: Wanted) -> None:
        self._world = world
        self._wanted = wanted
        self.violations: list[str] = []
        self.broken = trio.Event()
        self.over: set[str] = set()
        self.unique: set[str] = set()
        self.answers: list[Answers] = []
        self.attached: set[tuple[str, str]] = set()
        self.published: Callable[[], Iterable[Pod]] = tuple
        self.pre_stop_runs: list[Command] = []
        """Calls of preStop hooks that were checked."""
        self._restarts: dict[tuple[str, str, float], int] = {}

    def forget_restarts(self, uid: str) -> None:
        """The earlier statuses are of another instance of the pod."""
        self._restarts = {key: count for key, count in self._restarts.items() if key[0] != uid}

    def cap_restarts(self, uid: str, container: str, count: int) -> None:
        """Cap the restart count: an agent cannot know removed containers, with their counts, before it saw them."""
        self._restarts = {
            key: min(before, count) if key[:2] == (uid, container) else before for key, before in self._restarts.items()
        }

    def published_ready(self) -> set[str]:
        """The ids of the containers that the API server has as ready."""
        return {
            shown.container_id.rpartition("://")[2]
            for pod in self.published()
            if pod.status is not None
            for shown in (*pod.status.init_container_statuses, *pod.status.container_statuses)
            if shown.ready
        }

    def blame(self, what: str) -> None:
        """Record a violation."""
        self._world.note(f"!! {what}")
        self.violations.append(what)
        self.broken.set()

    def volumes_gone(self, uid: str) -> None:
        """Check that no container of the pod runs when its volumes are torn down."""
        if running := self._world.running_of(uid):
            self.blame(f"the volumes of pod {uid} are taken down while {running[0].name} runs")

    def restarts_of(self, uid: str, container: str, count: int) -> None:
        """Check a published restart count. It may start over only with a new instance of its pod."""
        since = self._wanted.since.get(uid)
        if since is None:
            return
        key = (uid, container, since)
        before = self._restarts.get(key, 0)
        if count < before:
            self.blame(f"the restart count of {uid}/{container} went back from {before} to {count}")
        self._restarts[key] = max(before, count)
