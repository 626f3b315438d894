"""Stopping single containers of a pod that lives on: together, each with its own grace; what is gone is stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from shell.pods.shellkit import Down, Said
from trikubelet.core.actions import Kill, KillReason, Reset
from trikubelet.model.bounds import Bounds
from trikubelet.model.runtime import ContainerState, ContainerStatus
from trikubelet.model.runtime_errors import NotFound, RuntimeCallError, RuntimeFailure
from trikubelet.pods.figures import PodFigures
from trikubelet.pods.hooks import Hooks
from trikubelet.pods.stop import Stopper
from trikubelet.testing.builders import container, pod

if TYPE_CHECKING:
    from trio.testing import MockClock


class Stubborn:
    """A runtime whose containers use up their grace; ``errors`` says who fails, and how, when asked to stop."""

    def __init__(self, **errors: RuntimeCallError) -> None:
        self.errors = errors
        self.stopped: dict[str, float] = {}
        self.removed: list[str] = []
        self.at_once_max = 0
        self._at_once = 0

    async def stop_container(self, id_: str, grace_seconds: int) -> None:
        """Take the whole grace."""
        self._at_once += 1
        self.at_once_max = max(self.at_once_max, self._at_once)
        await trio.sleep(grace_seconds)
        self._at_once -= 1
        if id_ in self.errors:
            raise self.errors[id_]
        self.stopped[id_] = trio.current_time()

    async def remove_container(self, id_: str) -> None:
        """Note it, or know nothing of it."""
        await trio.lowlevel.checkpoint()
        if f"remove_{id_}" in self.errors:
            raise self.errors[f"remove_{id_}"]
        self.removed.append(id_)


def status(name: str) -> ContainerStatus:
    return ContainerStatus(name, name, 0, ContainerState.RUNNING, 0)


def kills(*names: str) -> tuple[Kill, ...]:
    return tuple(Kill(status(name), KillReason.HASH_CHANGED, f"stop {name}, said {{so}}") for name in names)


def stopper(
    runtime: Stubborn, said: Said | None = None, bounds: Bounds | None = None, down: Down | None = None
) -> Stopper:
    said = said or Said()
    hooks = Hooks(runtime, runtime, (), said, PodFigures())  # type: ignore[arg-type]
    return Stopper(runtime, hooks, said, down or Down(), bounds or Bounds())  # type: ignore[arg-type]


WEB = pod("web", container("a"), container("b"), container("c"), grace=20)


async def test_containers_that_are_killed_share_the_time_of_their_grace(autojump_clock: MockClock) -> None:
    runtime, said = Stubborn(), Said()

    await stopper(runtime, said).stop_some(WEB, kills("a", "b", "c"), ())

    assert {"a": 20.0, "b": 20.0, "c": 20.0} == runtime.stopped
    assert {f"stop {name}, said {{so}}" for name in "abc"} == {message for _, _, message in said.events}


async def test_no_more_are_stopped_at_a_time_than_the_bound_allows(autojump_clock: MockClock) -> None:
    runtime = Stubborn()

    await stopper(runtime, bounds=Bounds(stops_per_pod_max=2)).stop_some(WEB, kills("a", "b", "c"), ())

    assert 2 == runtime.at_once_max
    assert [20.0, 20.0, 40.0] == sorted(runtime.stopped.values())


async def test_one_that_cannot_be_stopped_costs_the_others_nothing_and_one_that_is_gone_is_stopped(
    autojump_clock: MockClock,
) -> None:
    failure = RuntimeFailure("no")
    runtime = Stubborn(a=failure, b=NotFound("b"))

    with pytest.raises(RuntimeFailure) as raised:
        await stopper(runtime, down=(down := Down())).stop_some(WEB, kills("a", "b", "c"), ())

    assert failure is raised.value
    assert ["b", "c"] == sorted(down.ids)
    assert {"c"} == runtime.stopped.keys()
    await stopper(Stubborn(b=NotFound("b"))).stop_some(WEB, kills("b"), ())


async def test_a_container_that_is_gone_does_not_hold_up_a_pod_that_begins_anew(autojump_clock: MockClock) -> None:
    runtime = Stubborn(a=NotFound("a"), remove_b=NotFound("b"))

    await stopper(runtime, down=(down := Down())).reset(WEB, tuple(Reset(status(name), kill=True) for name in "abc"))

    assert ["a", "b", "c"] == down.ids
    assert {"b", "c"} == runtime.stopped.keys()
    assert ["c"] == runtime.removed
