"""Stopping containers: together, each with its own grace; what is gone is stopped. A sandbox stays while a container
in it may run, and a grace that has begun goes on at the next sync."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import pytest
import trio

from shell.pods.shellkit import Down, Said, does
from trikubelet.core.actions import Kill, KillReason, Reset
from trikubelet.model import k8s
from trikubelet.model.bounds import Bounds
from trikubelet.model.runtime import (
    ContainerState,
    ContainerStatus,
    ExecResult,
    PodObservation,
    SandboxState,
    SandboxStatus,
)
from trikubelet.model.runtime_errors import (
    NotFound,
    RuntimeCallError,
    RuntimeFailure,
    RuntimeLost,
    RuntimeTimeout,
    RuntimeUnavailable,
)
from trikubelet.pods.figures import PodFigures
from trikubelet.pods.hooks import Hooks
from trikubelet.pods.stop import PodKiller
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

    async def wait_connected(self) -> None:
        """It is always there."""
        await trio.lowlevel.checkpoint()

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


def killer(
    runtime: Stubborn | Restarting, said: Said | None = None, bounds: Bounds | None = None, down: Down | None = None
) -> PodKiller:
    said = said or Said()
    hooks = Hooks(runtime, runtime, tuple, said, PodFigures())  # type: ignore[arg-type]
    return PodKiller(runtime, hooks, said, down or Down(), bounds or Bounds())  # type: ignore[arg-type]


WEB = pod("web", container("a"), container("b"), container("c"), grace=20)


async def test_containers_that_are_killed_share_the_time_of_their_grace(autojump_clock: MockClock) -> None:
    runtime, said = Stubborn(), Said()

    await killer(runtime, said).stop_some(WEB, kills("a", "b", "c"), ())

    assert {"a": 20.0, "b": 20.0, "c": 20.0} == runtime.stopped
    assert {f"stop {name}, said {{so}}" for name in "abc"} == {message for _, _, message in said.events}


async def test_no_more_are_stopped_at_a_time_than_the_bound_allows(autojump_clock: MockClock) -> None:
    runtime = Stubborn()

    await killer(runtime, bounds=Bounds(stops_per_pod_max=2)).stop_some(WEB, kills("a", "b", "c"), ())

    assert 2 == runtime.at_once_max
    assert [20.0, 20.0, 40.0] == sorted(runtime.stopped.values())


async def test_one_that_cannot_be_stopped_costs_the_others_nothing_and_one_that_is_gone_is_stopped(
    autojump_clock: MockClock,
) -> None:
    failure = RuntimeFailure("no")
    runtime = Stubborn(a=failure, b=NotFound("b"))

    with pytest.raises(RuntimeFailure) as raised:
        await killer(runtime, down=(down := Down())).stop_some(WEB, kills("a", "b", "c"), ())

    assert failure is raised.value
    assert ["b", "c"] == sorted(down.ids)
    assert {"c"} == runtime.stopped.keys()
    await killer(Stubborn(b=NotFound("b"))).stop_some(WEB, kills("b"), ())


async def test_a_container_that_is_gone_does_not_hold_up_a_pod_that_starts_over(autojump_clock: MockClock) -> None:
    runtime = Stubborn(a=NotFound("a"), remove_b=NotFound("b"))

    await killer(runtime, down=(down := Down())).reset(WEB, tuple(Reset(status(name), kill=True) for name in "abc"))

    assert ["a", "b", "c"] == down.ids
    assert {"b", "c"} == runtime.stopped.keys()
    assert ["c"] == runtime.removed


BOX = SandboxStatus("s", "uid-web", "web", "default", 0, SandboxState.READY, 0)


class Restarting:
    """A runtime whose ``failures`` are what happens to the next calls of StopContainer: so long they take, and so they
    end. Then it stops what it is asked to at once. Keeps the graces it was given, and the sandboxes it stopped."""

    def __init__(self, *failures: tuple[float, RuntimeCallError]) -> None:
        self.failures = list(failures)
        self.graces: dict[str, list[int]] = {}
        self.boxes: list[str] = []

    async def wait_connected(self) -> None:
        """It is there whenever it is asked."""
        await trio.lowlevel.checkpoint()

    async def stop_container(self, id_: str, grace_seconds: int) -> None:
        """Fail, or stop it."""
        self.graces.setdefault(id_, []).append(grace_seconds)
        await trio.lowlevel.checkpoint()
        if self.failures:
            seconds, error = self.failures.pop(0)
            await trio.sleep(seconds)
            raise error

    async def exec_sync(self, *_: object) -> NoReturn:
        """The command takes the runtime with it."""
        await trio.lowlevel.checkpoint()
        raise RuntimeLost("connection reset")

    async def stop_sandbox(self, id_: str) -> None:
        """Keep that it was asked."""
        await trio.lowlevel.checkpoint()
        self.boxes.append(id_)


def seen(*names: str, boxes: tuple[SandboxStatus, ...] = (BOX,), home: str = "s") -> PodObservation:
    there = tuple(replace(status(name), sandbox_id=home) for name in names)
    return PodObservation("uid-web", sandboxes=boxes, containers=there)


LOST = RuntimeUnavailable("the runtime restarts")


async def test_a_runtime_that_restarts_cuts_no_grace_short(autojump_clock: MockClock) -> None:
    runtime, said = Restarting((8.5, LOST), (0, LOST), (100, LOST)), Said()
    ending = killer(runtime, said)

    for _ in range(3):
        with pytest.raises(RuntimeUnavailable):
            await ending.terminate_pod(WEB, seen("a"), 600)
        assert [] == runtime.boxes
        assert "FailedKillPod" == said.reasons[-1]
        await trio.sleep(1000)  # while the runtime is away nobody was told to stop
    await ending.terminate_pod(WEB, seen("a"), 600)

    assert {"a": [600, 592, 592, 492]} == runtime.graces
    assert ["s"] == runtime.boxes


async def test_the_grace_that_is_left_only_shrinks_and_never_below_what_the_runtime_needs(
    autojump_clock: MockClock,
) -> None:
    runtime = Restarting((10, LOST), (1, LOST), (5, LOST), (5, LOST))
    ending = killer(runtime)

    for grace in (30, 25, 4, 4):
        with pytest.raises(RuntimeUnavailable):
            await ending.terminate_pod(WEB, seen("a"), grace)
    await ending.terminate_pod(WEB, seen("a"), 4)

    assert {"a": [30, 20, 4, 2, 2]} == runtime.graces


async def test_a_container_that_cannot_be_stopped_goes_with_its_sandbox_when_its_grace_is_over(
    autojump_clock: MockClock,
) -> None:
    no = RuntimeFailure("failed to kill: no such process")
    runtime = Restarting((0, no), (5, LOST), (0, no), (0, no))
    ending = killer(runtime)

    for stopped in ([], [], [], ["s"]):
        with pytest.raises(RuntimeCallError):
            await ending.terminate_pod(WEB, seen("a"), 30)
        assert stopped == runtime.boxes
        await trio.sleep(10)


async def test_a_sync_that_is_given_up_has_used_its_grace_too(autojump_clock: MockClock) -> None:
    runtime = Restarting((100, LOST))
    ending = killer(runtime)

    with trio.move_on_after(10):
        await ending.terminate_pod(WEB, seen("a"), 30)
    await ending.terminate_pod(WEB, seen("a"), 25)

    assert {"a": [30, 20]} == runtime.graces


async def test_a_pod_that_lives_on_has_its_whole_grace_at_every_end(autojump_clock: MockClock) -> None:
    runtime = Restarting((8, LOST))
    ending = killer(runtime)

    with pytest.raises(RuntimeUnavailable):
        await ending.stop_pod(WEB, seen("a"), 30)
    await ending.stop_pod(WEB, seen("a"), 30)

    assert {"a": [30, 30]} == runtime.graces
    assert ["s"] == runtime.boxes


@pytest.mark.parametrize(
    ("boxes", "names", "home", "failure"),
    [
        (["s", "old"], (), "s", LOST),
        (["s", "old"], ("a",), "s", NotFound("a")),
        (["old"], ("a",), "s", RuntimeFailure("no")),
        (["s"], ("a", "b"), "old", RuntimeTimeout("late")),
        ([], ("a",), "", LOST),
    ],
)
async def test_a_sandbox_is_stopped_when_every_container_in_it_is_known_to_be_down(
    boxes: list[str], names: tuple[str, ...], home: str, failure: RuntimeCallError, autojump_clock: MockClock
) -> None:
    runtime = Restarting((0, failure))

    with suppress(RuntimeCallError):
        await killer(runtime).terminate_pod(WEB, seen(*names, boxes=(BOX, replace(BOX, id="old")), home=home), 30)

    assert boxes == runtime.boxes


CUT = k8s.Lifecycle(pre_stop=does("restart", "containerd"))


def sidecar(name: str, lifecycle: k8s.Lifecycle | None = None) -> k8s.Container:
    return container(name, restart_policy="Always", lifecycle=lifecycle)


async def test_a_sync_of_less_than_a_second_uses_grace_too(autojump_clock: MockClock) -> None:
    runtime = Restarting(*[(0.5, LOST)] * 5)
    ending = killer(runtime)

    for _ in range(5):
        with pytest.raises(RuntimeUnavailable):
            await ending.terminate_pod(WEB, seen("a"), 5)

    assert {"a": [5, 5, 4, 4, 3]} == runtime.graces


async def test_a_container_that_is_killed_alone_is_stopped_though_its_hook_was_cut_twice(
    autojump_clock: MockClock,
) -> None:
    web, runtime, said = pod("web", container("a", lifecycle=CUT), grace=20), Restarting(), Said()
    ending = killer(runtime, said)

    with pytest.raises(RuntimeUnavailable):
        await ending.stop_some(web, kills("a"), ())
    assert ["Killing"] == said.reasons
    await ending.stop_some(web, kills("a"), ())

    assert {"a": [20]} == runtime.graces
    assert ["Killing", "Killing", "FailedPreStopHook"] == said.reasons


async def test_a_sidecar_goes_on_while_a_main_container_is_not_known_to_be_down(autojump_clock: MockClock) -> None:
    web = pod("web", container("a"), init=[sidecar("proxy"), sidecar("logs")])
    runtime, there = Restarting((2, LOST)), seen("a", "proxy", "logs")
    ending = killer(runtime)

    with pytest.raises(RuntimeUnavailable):
        await ending.terminate_pod(web, there, 600)
    assert {"a": [600]} == runtime.graces
    await trio.sleep(1000)
    await ending.terminate_pod(web, there, 600)

    assert {"a": [600, 598], "logs": [598], "proxy": [598]} == runtime.graces
    assert ["s"] == runtime.boxes


async def test_sidecar_with_a_cut_hook_keeps_the_stop_order(
    autojump_clock: MockClock,
) -> None:
    web = pod("web", container("a"), init=[sidecar("proxy"), sidecar("logs", CUT)])
    runtime = Restarting((20, NotFound("a")))

    with pytest.raises(RuntimeUnavailable):
        await killer(runtime).terminate_pod(web, seen("a", "proxy", "logs"), 600)

    assert {"a": [600]} == runtime.graces


async def test_a_sidecar_has_its_turn_when_a_main_container_is_past_stopping(autojump_clock: MockClock) -> None:
    web = pod("web", container("a"), init=[sidecar("proxy")])
    runtime = Restarting(*[(0, RuntimeFailure("no such process"))] * 4)
    ending = killer(runtime)

    for stopped in ([], [], [], ["s"]):
        with pytest.raises(RuntimeFailure):
            await ending.terminate_pod(web, seen("a", "proxy"), 30)
        assert stopped == runtime.boxes
        await trio.sleep(10)

    assert {"a": [30] * 4, "proxy": [30]} == runtime.graces


@pytest.mark.parametrize(
    ("syncs", "seconds", "error"),
    [(16, 0, LOST), (2, 150, RuntimeTimeout("late"))],
)
async def test_container_with_unanswered_stops_ends_with_its_sandbox(
    syncs: int, seconds: float, error: RuntimeCallError, autojump_clock: MockClock
) -> None:
    runtime, tried = Restarting(*[(seconds, error)] * 30), 0
    ending = killer(runtime)

    while not runtime.boxes and tried < 30:
        with pytest.raises(type(error)):
            await ending.terminate_pod(WEB, seen("a"), 30)
        tried += 1
        await trio.sleep(10)  # and then it was listed again

    assert syncs == tried


@pytest.mark.parametrize("grace", [30, 600])
async def test_a_runtime_that_hung_once_and_then_restarts_says_nothing_of_the_container(
    grace: int, autojump_clock: MockClock
) -> None:
    runtime = Restarting((120 + grace, RuntimeTimeout("late")), (0.1, LOST))
    ending = killer(runtime)

    for _ in range(2):
        with pytest.raises(RuntimeCallError):
            await ending.terminate_pod(WEB, seen("a"), grace)
        await trio.sleep(10)

    assert [] == runtime.boxes


async def test_a_refusal_of_a_day_ago_does_not_count_against_a_termination(autojump_clock: MockClock) -> None:
    runtime = Restarting(*[(0, RuntimeFailure("no such process"))] * 2)
    ending = killer(runtime)
    with pytest.raises(RuntimeFailure):
        await ending.stop_pod(WEB, seen("a"), 30)  # of a pod that lived on
    await trio.sleep(86400)

    with pytest.raises(RuntimeFailure):
        await ending.terminate_pod(WEB, seen("a"), 600)

    assert [] == runtime.boxes


@pytest.mark.parametrize(("failures", "tries", "events"), [(2, 3, 0), (9, 6, 1)])
async def test_a_hook_that_the_runtime_does_not_begin_is_tried_some_times(
    failures: int, tries: int, events: int, autojump_clock: MockClock
) -> None:
    class Refusing(Restarting):
        """Nobody answers at the socket at first."""

        asked = 0

        async def exec_sync(self, *_: object) -> ExecResult:  # type: ignore[override]
            """Run it, once somebody does."""
            await trio.lowlevel.checkpoint()
            self.asked += 1
            if self.asked <= failures:
                raise RuntimeUnavailable("connection refused")
            return ExecResult(0)

    web, runtime, said = pod("web", container("a", lifecycle=CUT), grace=20), Refusing(), Said()
    ending = killer(runtime, said)

    while not runtime.boxes:
        with suppress(RuntimeUnavailable):
            await ending.terminate_pod(web, seen("a"), 20)

    assert (tries, events) == (runtime.asked, said.reasons.count("FailedPreStopHook"))


async def test_a_runtime_that_is_away_for_hours_is_no_container_that_cannot_be_stopped(
    autojump_clock: MockClock,
) -> None:
    runtime = Restarting(*[(1, LOST)] * 6)
    ending = killer(runtime)

    for _ in range(6):
        with pytest.raises(RuntimeUnavailable):
            await ending.terminate_pod(WEB, seen("a"), 30)
        await trio.sleep(7200)

    assert [] == runtime.boxes


class Away(Restarting):
    """A runtime to which there is no connection until ``back_at``: calls wait for it, unsent, as those of the channel
    do. Keeps when hooks began, which take three seconds."""

    back_at = 60.0

    def __init__(self) -> None:
        super().__init__()
        self.hooks: list[float] = []

    async def wait_connected(self) -> None:
        """Return once there is one."""
        await trio.sleep_until(self.back_at)

    async def exec_sync(self, *_: object) -> ExecResult:  # type: ignore[override]
        """Run it, once it can be sent."""
        await self.wait_connected()
        self.hooks.append(trio.current_time())
        await trio.sleep(3)
        return ExecResult(0)

    async def stop_container(self, id_: str, grace_seconds: int) -> None:
        """Stop it, once it can be sent."""
        await self.wait_connected()
        await super().stop_container(id_, grace_seconds)


def having(hook: k8s.LifecycleHandler) -> k8s.Pod:
    return pod("web", container("a", lifecycle=k8s.Lifecycle(pre_stop=hook)), grace=20)


@pytest.mark.parametrize("back_at", [60, 300])
@pytest.mark.parametrize(("hook", "hooks", "grace"), [(None, 0, 20), (does("bye"), 1, 17)])
async def test_a_runtime_that_is_away_costs_a_pod_neither_its_grace_nor_its_hook(
    hook: k8s.LifecycleHandler | None, hooks: int, grace: int, back_at: float, autojump_clock: MockClock
) -> None:
    runtime = Away()
    runtime.back_at = back_at
    ending, web = killer(runtime), having(hook) if hook else WEB

    while not runtime.boxes:
        with suppress(RuntimeUnavailable):
            await ending.terminate_pod(web, seen("a"), 20)
        assert bool(runtime.boxes) == (trio.current_time() >= back_at)

    assert [back_at] * hooks == runtime.hooks
    assert {"a": [grace]} == runtime.graces


async def test_a_container_that_is_killed_alone_while_the_runtime_is_away_has_its_hook_and_its_grace(
    autojump_clock: MockClock,
) -> None:
    runtime = Away()

    await killer(runtime).stop_some(having(does("bye")), kills("a"), ())

    assert [60] == runtime.hooks
    assert {"a": [17]} == runtime.graces


async def test_a_sidecar_has_its_turn_with_all_its_grace_though_the_runtime_was_away(autojump_clock: MockClock) -> None:
    web = pod("web", container("a"), container("b"), init=[sidecar("proxy")])
    runtime = Away()

    await killer(runtime).terminate_pod(web, seen("a", "b", "proxy"), 30)

    assert {"a": [30], "b": [30], "proxy": [30]} == runtime.graces


async def test_a_hook_that_asks_nothing_of_the_runtime_does_not_wait_for_it_and_counts(
    autojump_clock: MockClock,
) -> None:
    web, runtime = having(k8s.LifecycleHandler(sleep=k8s.SleepAction(seconds=5))), Away()
    runtime.back_at = 5.0

    await killer(runtime).terminate_pod(web, seen("a"), 20)

    assert 5 == trio.current_time()
    assert {"a": [15]} == runtime.graces
