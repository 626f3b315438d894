"""A graceful shutdown ends pods and keeps their containers, so after the boot each pod goes on from how it ended."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import pytest
import trio
from msgspec import structs

from shell.pods.shellkit import Bench, phase, until
from trikubelet.app.node import run_node, run_pressure
from trikubelet.core.eviction import EvictionRules
from trikubelet.core.eviction.thresholds import NODEFS, Amount, Threshold
from trikubelet.core.node_shutdown import ShutdownGroup
from trikubelet.model import k8s
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_shutdown import MemoryShutdownManager, MemoryShutdownRecords
from trikubelet.testing.memory_usage import GIB, MemoryUsage
from trikubelet.testing.world import SIGKILL_CODE, SIGTERM_CODE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from trio.testing import MockClock

    from trikubelet.app.node import Node

CRITICAL: Final = 2_000_000_000
GROUPS: Final = (ShutdownGroup(0, 20), ShutdownGroup(CRITICAL, 10))
SETTLED_SECONDS: Final = 150.0
"""Two passes of the garbage collection, and many of housekeeping."""


def app(name: str, policy: str = "Always", *, command: str = "run", **fields: object) -> k8s.Pod:
    return pod(name, container(name, [command]), policy=policy, **fields)  # type: ignore[arg-type]


STATIC: Final = (
    app("always"),
    app("slow", command="stubborn", grace=8),
    app("vital", priority=CRITICAL),
    app("failed", "OnFailure"),
    app("drained", "OnFailure", command="drains"),
    app("once", "Never", command="drains"),
    app("cut", "Never"),
)
CODES: Final = {"always": SIGTERM_CODE, "slow": SIGKILL_CODE, "vital": SIGTERM_CODE, "failed": SIGTERM_CODE}
"""The exit codes of the pods that run again after the boot."""
PHASES: Final = {"drained": "Succeeded", "once": "Succeeded", "cut": "Failed"}
"""The phases of the pods that do not."""


class Machine:
    """Owns how often the machine was asked to go down: a new boot has a new manager. What runs on it is the bench's."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.bench.shutdown = GROUPS
        self.manager = MemoryShutdownManager()

    @asynccontextmanager
    async def agent(self, *static: k8s.Pod, api: Sequence[k8s.Pod] = ()) -> AsyncIterator[Node]:
        """An agent for the length of the block. It knows whether the machine goes down before it knows any pod."""
        node = self.bench.build_node(("file", "api"))
        async with trio.open_nursery() as nursery:
            await nursery.start(run_node, node)
            await nursery.start(node.shutdown.run, self.manager, MemoryShutdownRecords())
            await until(lambda: bool(self.manager.delays) or node.shutdown.is_shutting_down)
            node.slots["file"].put(Snapshot(static))
            node.slots["api"].put(Snapshot(tuple(api)))
            yield node
            nursery.cancel_scope.cancel()

    async def all_run(self, pods: Sequence[k8s.Pod]) -> None:
        """Wait until the containers of these pods run, and no other."""
        await until(lambda: sorted(one.metadata.name for one in pods) == self.bench.running())

    async def shut_down(self) -> None:
        """Announce a shutdown, and wait until the agent delays it no longer."""
        self.manager.announce(True)
        await until(lambda: not self.manager.delays)

    def reboot(self) -> None:
        """Cut everything that still runs."""
        self.bench.world.reboot()
        self.manager = MemoryShutdownManager()

    def starts(self, name: str) -> int:
        return len(self.bench.world.runs.get((f"uid-{name}", name), ()))


def shown(node: Node, name: str) -> k8s.ContainerStatus:
    status = node.statuses.get(f"uid-{name}")
    assert status is not None
    return status.container_statuses[0]


def restarts(node: Node, name: str) -> int:
    return shown(node, name).restart_count


def last_code(node: Node, name: str) -> int | None:
    last = shown(node, name).last_state
    return None if last is None or last.terminated is None else last.terminated.exit_code


async def check_boot(machine: Machine, cut: Sequence[str] = ()) -> None:
    """After the boot each pod that may run again is started once, with its restart count; the others stay ended.
    ``cut``: the pods that ran until the machine was off."""
    async with machine.agent(*STATIC) as node:
        await until(lambda: sorted(CODES) == machine.bench.running())
        await trio.sleep(SETTLED_SECONDS)

        assert sorted(CODES) == machine.bench.running()
        assert dict.fromkeys(CODES, 2) == {name: machine.starts(name) for name in CODES}
        assert dict.fromkeys(CODES, 1) == {name: restarts(node, name) for name in CODES}
        assert CODES | dict.fromkeys(cut, SIGKILL_CODE) == {name: last_code(node, name) for name in CODES}
        assert dict.fromkeys(PHASES, 1) == {name: machine.starts(name) for name in PHASES}
        assert PHASES == {name: phase(node, f"uid-{name}") for name in PHASES}


@pytest.mark.parametrize("late_seconds", [0.0, SETTLED_SECONDS], ids=["off at once", "off minutes later"])
async def test_static_pods_continue_after_the_boot_from_how_the_shutdown_ended_them(
    late_seconds: float, autojump_clock: MockClock
) -> None:
    machine = Machine()
    async with machine.agent(*STATIC):
        await machine.all_run(STATIC)
        await machine.shut_down()
        await trio.sleep(late_seconds)
    machine.reboot()

    await check_boot(machine)


async def test_two_shutdowns_in_a_row_count_two_restarts(autojump_clock: MockClock) -> None:
    machine = Machine()
    for boot in range(3):
        async with machine.agent(*STATIC) as node:
            await machine.all_run([one for one in STATIC if boot == 0 or one.metadata.name in CODES])
            await trio.sleep(SETTLED_SECONDS)
            assert boot == restarts(node, "always")
            await machine.shut_down()
            await trio.sleep(SETTLED_SECONDS)
        machine.reboot()

    assert (3, 1, 1) == (machine.starts("always"), machine.starts("once"), machine.starts("drained"))


@pytest.mark.parametrize("after_seconds", [0.0, 0.05, 0.21, 0.5, 4.0, 8.05, 8.3, 9.0])
async def test_a_crash_in_the_middle_of_a_shutdown_costs_no_run_and_no_count(
    after_seconds: float, autojump_clock: MockClock
) -> None:
    machine = Machine()
    async with machine.agent(*STATIC):
        await machine.all_run(STATIC)
        machine.manager.announce(True)
        await trio.sleep(after_seconds)
    await trio.sleep(1)
    cut = set(machine.bench.running())
    machine.reboot()

    async with machine.agent(*STATIC) as node:
        again = {*CODES, *cut & {"drained"}}
        await until(lambda: sorted(again) == machine.bench.running())
        await trio.sleep(SETTLED_SECONDS)

        for name in sorted({one.metadata.name for one in STATIC}):
            is_again = name in again
            assert (name, 1 + is_again, int(is_again)) == (name, machine.starts(name), restarts(node, name))
        codes = CODES | {"drained": SIGKILL_CODE} | dict.fromkeys(cut, SIGKILL_CODE)
        assert {name: codes[name] for name in again} == {name: last_code(node, name) for name in again}


async def test_an_agent_that_starts_in_the_middle_of_a_shutdown_starts_nothing_that_has_ended(
    autojump_clock: MockClock,
) -> None:
    machine = Machine()
    async with machine.agent(*STATIC):
        await machine.all_run(STATIC)
        machine.manager.announce(True)
        await until(lambda: ["slow", "vital"] == machine.bench.running())
    async with machine.agent(*STATIC) as node:
        assert node.shutdown.is_shutting_down
        await until(lambda: phase(node, "uid-vital") == "Running")
        await trio.sleep(SETTLED_SECONDS)

        names = [one.metadata.name for one in STATIC]
        assert dict.fromkeys(names, 1) == {name: machine.starts(name) for name in names}
        assert {"slow", "vital"} == {one.pod.metadata.name for one in node.workers}
    machine.reboot()

    await check_boot(machine, cut=["vital"])


async def test_a_disk_that_is_full_during_the_shutdown_costs_no_ended_container(autojump_clock: MockClock) -> None:
    machine = Machine()
    machine.bench.eviction = EvictionRules((Threshold(NODEFS, Amount(10 * GIB)),))
    usage = MemoryUsage()
    async with machine.agent(*STATIC) as node, trio.open_nursery() as nursery:
        nursery.start_soon(run_pressure, node, usage)
        await machine.all_run(STATIC)
        usage.available[NODEFS] = GIB
        await machine.shut_down()
        await trio.sleep(SETTLED_SECONDS)
        assert ["DiskPressure"] == list(node.eviction.conditions())
        nursery.cancel_scope.cancel()
    machine.reboot()

    await check_boot(machine)


async def test_directories_and_logs_of_pods_outlive_the_shutdown(autojump_clock: MockClock, tmp_path: Path) -> None:
    machine = Machine()
    machine.bench.move_to_disk(tmp_path)
    async with machine.agent(*STATIC):
        await machine.all_run(STATIC)
        logs = machine.bench.log_directories()
        await machine.shut_down()
        await trio.sleep(SETTLED_SECONDS)

        assert {one.metadata.uid for one in STATIC} == machine.bench.pods_on_disk()
        assert len(STATIC) == len(logs)
        assert logs == machine.bench.log_directories()


async def test_what_a_shut_down_pod_held_is_taken_down_before_the_machine_goes(autojump_clock: MockClock) -> None:
    machine = Machine()
    async with machine.agent(*STATIC) as node:
        await machine.all_run(STATIC)
        await machine.shut_down()

        assert all(node.workers.is_finished(one.metadata.uid) for one in STATIC)
        assert not machine.bench.cgroups.leftovers()


async def test_a_pod_that_the_server_knows_to_have_failed_in_the_shutdown_stays_failed_until_it_is_deleted(
    autojump_clock: MockClock,
) -> None:
    machine, web = Machine(), app("web", source="api")
    async with machine.agent(api=[web]) as node:
        await machine.all_run([web])
        await machine.shut_down()
        written = node.statuses.get("uid-web")
        assert written is not None
        assert ("Failed", "Terminated") == (written.phase, written.reason)
    machine.reboot()

    failed = structs.replace(web, status=written)
    async with machine.agent(api=[failed]) as node:
        await until(lambda: node.workers.is_finished("uid-web"))
        await trio.sleep(SETTLED_SECONDS)
        assert 1 == machine.starts("web")
        found = node.statuses.get("uid-web")
        assert found is not None
        state = found.container_statuses[0].state
        assert state is not None
        assert state.terminated is not None
        assert ("Failed", "Terminated", SIGTERM_CODE) == (found.phase, found.reason, state.terminated.exit_code)
        assert machine.bench.world.containers

        node.slots["api"].put(Snapshot())
        await until(lambda: not machine.bench.world.containers and not machine.bench.world.sandboxes)
        await until(lambda: not machine.bench.pods_on_disk())


async def test_pod_with_an_unpublished_failure_is_restarted_after_the_boot(
    autojump_clock: MockClock,
) -> None:
    machine, web = Machine(), app("web", source="api")
    async with machine.agent(api=[web]):
        await machine.all_run([web])
        await machine.shut_down()
        await trio.sleep(SETTLED_SECONDS)
    machine.reboot()

    async with machine.agent(api=[web]) as node:
        await machine.all_run([web])
        await until(lambda: shown(node, "web").ready)
        assert (2, 1, SIGTERM_CODE) == (machine.starts("web"), restarts(node, "web"), last_code(node, "web"))


async def test_a_manifest_that_is_removed_after_the_shutdown_leaves_nothing(autojump_clock: MockClock) -> None:
    machine = Machine()
    async with machine.agent(*STATIC) as node:
        await machine.all_run(STATIC)
        await machine.shut_down()
        machine.manager.announce(False)  # it was called off
        await trio.sleep(SETTLED_SECONDS)
        assert machine.bench.world.containers
        node.slots["file"].put(Snapshot())

        await until(lambda: not machine.bench.world.containers and not machine.bench.world.sandboxes)
        await until(lambda: not machine.bench.pods_on_disk())


async def test_after_a_shutdown_that_was_called_off_static_pods_continue_with_the_next_agent(
    autojump_clock: MockClock,
) -> None:
    machine = Machine()
    async with machine.agent(*STATIC):
        await machine.all_run(STATIC)
        await machine.shut_down()
        machine.manager.announce(False)
        await trio.sleep(SETTLED_SECONDS)
        assert [] == machine.bench.running()

    await check_boot(machine)
