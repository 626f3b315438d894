"""However long hooks and ends take: nobody is stopped before its hook, its turn or its grace; one grace is for all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from shell.pods.shellkit import Down, Said, does
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
from trikubelet.pods.figures import PodFigures
from trikubelet.pods.hooks import Hooks
from trikubelet.pods.stop import PodKiller
from trikubelet.testing.builders import container, pod

if TYPE_CHECKING:
    from collections.abc import Sequence

REGULAR, SIDECARS = ("a", "b", "c"), ("one", "two")
BOX = SandboxStatus("s", "uid-web", "web", "default", 0, SandboxState.READY, 0, ("10.0.0.1",))
SECONDS = st.floats(0, 40, allow_nan=False)


@dataclass
class Slow:
    """A runtime whose containers take their time: for their hook, if they have one, and for their end. There is no
    connection to it until ``back_at``. Keeps when each began and ended to say goodbye, was asked to stop, with which
    grace, and had stopped."""

    hooks: dict[str, float]
    ends: dict[str, float]
    back_at: float = 0.0
    said: dict[str, tuple[float, float]] = field(default_factory=dict)
    asked: dict[str, tuple[float, int]] = field(default_factory=dict)
    stopped: dict[str, float] = field(default_factory=dict)
    boxes: list[str] = field(default_factory=list)

    async def wait_connected(self) -> None:
        """Return once it is there."""
        await trio.sleep_until(self.back_at)

    async def exec_sync(self, id_: str, _command: Sequence[str], limit_seconds: int) -> ExecResult:
        """Take the hook's time."""
        assert limit_seconds == 0
        await self.wait_connected()
        began = trio.current_time()
        try:
            await trio.sleep(self.hooks[id_])
        finally:
            self.said[id_] = (began, trio.current_time())
        return ExecResult(0)

    async def stop_container(self, id_: str, grace_seconds: int) -> None:
        """Take the container's time, and no more than its grace."""
        await self.wait_connected()
        self.asked[id_] = (trio.current_time(), grace_seconds)
        await trio.sleep(min(self.ends[id_], grace_seconds))
        self.stopped[id_] = trio.current_time()

    async def stop_sandbox(self, id_: str) -> None:
        """Keep that it was asked."""
        await trio.lowlevel.checkpoint()
        self.boxes.append(id_)


def stop(runtime: Slow, grace_seconds: int) -> None:
    """Stop a pod of all the containers there are."""

    def made(name: str, restart_policy: str = "") -> k8s.Container:
        hook = k8s.Lifecycle(pre_stop=does("bye")) if name in runtime.hooks else None
        return container(name, lifecycle=hook, restart_policy=restart_policy)

    web = pod("web", *map(made, REGULAR), init=[made(name, "Always") for name in SIDECARS])
    running = [ContainerStatus(name, name, 0, ContainerState.RUNNING, 0) for name in (*REGULAR, *SIDECARS)]
    seen = PodObservation("uid-web", ips=BOX.ips, sandboxes=(BOX,), containers=tuple(running))
    said = Said()
    hooks = Hooks(runtime, runtime, tuple, said, PodFigures())  # type: ignore[arg-type] # no hook here asks the network
    killer = PodKiller(runtime, hooks, said, Down(), Bounds())  # type: ignore[arg-type] # it lists nothing
    trio.run(killer.stop_pod, web, seen, grace_seconds, clock=trio.testing.MockClock(autojump_threshold=0))


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from((*REGULAR, *SIDECARS)), SECONDS),
    st.fixed_dictionaries(dict.fromkeys((*REGULAR, *SIDECARS), SECONDS)),
    st.integers(1, 30),
    st.floats(0, 100),
)
def test_every_container_has_its_hook_its_turn_and_what_is_left_of_one_grace(
    hooks: dict[str, float], ends: dict[str, float], grace_seconds: int, back_at: float
) -> None:
    runtime = Slow(hooks, ends, back_at)

    stop(runtime, grace_seconds)

    assert {*REGULAR, *SIDECARS} == runtime.stopped.keys()
    assert ["s"] == runtime.boxes
    assert hooks.keys() == runtime.said.keys()
    turns = {"two": max(runtime.stopped[name] for name in REGULAR), "one": runtime.stopped["two"]}
    for name, (at, left) in runtime.asked.items():
        began, ended = runtime.said.get(name, (back_at, back_at))
        assert back_at == pytest.approx(began)  # the hooks of all run at once
        lived_seconds = runtime.stopped[name] - back_at
        assert min(hooks.get(name, 0), lived_seconds) == pytest.approx(ended - back_at)
        waited_until = back_at + min(hooks.get(name, 0), grace_seconds)
        assert max(waited_until, turns.get(name, 0)) == pytest.approx(at)
        assert abs(max(2, grace_seconds - (at - back_at)) - left) < 1  # whole seconds go to the runtime
