"""What a container's processes may do to the machine, and that nothing of them is left: real processes, real signals.

In scope: trees that fork away, fork bombs, the death of the agent, many containers, each of the ways in which the
runtime keeps processes (root, user namespace, guards). The contract every runtime keeps is tests/contract.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import trio

from shell.embedded.embeddedkit import (
    POLL_SECONDS,
    PREFIXES,
    WAIT_SECONDS_MAX,
    gone,
    processes_with,
    running,
    running_apart,
)
from trikubelet.app.supervise import reason_of
from trikubelet.core.containers.container import SIGNALS
from trikubelet.embedded import processes
from trikubelet.model.runtime import ContainerState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from shell.embedded.embeddedkit import Embedded

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

# Ends up as a child of init, or of nobody, in a session of its own, as daemons do.
DAEMON = "(setsid sh -c 'echo away; exec sleep 4242' &)"


@pytest.fixture(params=list(PREFIXES))
async def embedded(request: pytest.FixtureRequest) -> AsyncIterator[Embedded]:
    """A runtime of each kind."""
    async with running_apart(request.param) as (found, _):
        yield found


def marked(tmp_path: Path) -> dict[str, Any]:
    """Environment by which a container's processes are found."""
    return {"envs": (("MARKER", str(tmp_path)),)}


async def test_what_forked_away_ends_with_its_container(embedded: Embedded, tmp_path: Path) -> None:
    container_id = await embedded.start(f"{DAEMON}; while :; do sleep 1; done", **marked(tmp_path))
    await embedded.wrote("away")
    assert processes_with(f"MARKER={tmp_path}")

    await embedded.runtime.stop_container(container_id, 0)

    await gone(f"MARKER={tmp_path}")


async def test_what_forked_away_ends_when_the_command_ends_by_itself(embedded: Embedded, tmp_path: Path) -> None:
    container_id = await embedded.start(f"{DAEMON}; exit 3", **marked(tmp_path))

    assert 3 == (await embedded.exited(container_id)).exit_code
    await gone(f"MARKER={tmp_path}")


async def test_containers_do_not_inherit_ignored_signals(
    tmp_path: Path,
) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does; a shell does it with SIGINT
    try:
        async with running(tmp_path) as embedded:
            container_id = await embedded.start("grep SigIgn /proc/self/status")
            await embedded.exited(container_id)
    finally:
        signal.signal(signal.SIGHUP, before)

    (line,) = embedded.output()
    assert 0 == int(line.removeprefix("SigIgn:"), 16) & 1 << signal.SIGHUP - 1


async def test_a_container_is_stopped_by_the_signal_it_asks_for(embedded: Embedded) -> None:
    script = "trap 'exit 7' USR1; trap 'exit 8' TERM; echo ready; while :; do sleep 0.05; done"
    container_id = await embedded.start(script, stop_signal=SIGNALS.index("SIGUSR1"))
    await embedded.wrote("ready")

    await embedded.runtime.stop_container(container_id, 20)

    assert 7 == (await embedded.exited(container_id)).exit_code


async def test_a_signal_that_ends_a_container_is_in_its_exit_code(embedded: Embedded) -> None:
    container_id = await embedded.start("sh -c 'kill -SEGV $$'")

    assert 139 == (await embedded.exited(container_id)).exit_code


async def test_a_fork_bomb_hits_its_bound_and_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PROCESSES_PER_CONTAINER_MAX", 60)
    async with running(tmp_path) as embedded:
        bomb = await embedded.start("b() { b | b & }; b; while :; do sleep 1; done", "bomb", **marked(tmp_path))
        with trio.fail_after(WAIT_SECONDS_MAX):
            while not any("ork" in line for line in embedded.output("bomb")):  # noqa: ASYNC110 - a file has no event
                await trio.sleep(POLL_SECONDS)
        neighbour = await embedded.start("echo well", "neighbour")

        assert 0 == (await embedded.exited(neighbour)).exit_code
        assert len(processes_with(f"MARKER={tmp_path}")) <= 60
        await embedded.runtime.stop_container(bomb, 0)
        await gone(f"MARKER={tmp_path}")


async def test_two_hundred_containers_run_and_end(tmp_path: Path) -> None:
    async with running(tmp_path) as embedded:
        ids = [await embedded.start("echo up; exec sleep 4242", f"c{n}", **marked(tmp_path)) for n in range(200)]
        await embedded.wrote("up", "c199")

        states = [(await embedded.runtime.container_status(id_)).decode().state for id_ in ids]
        assert [ContainerState.RUNNING] * 200 == states
        await embedded.runtime.stop_sandbox(embedded.sandbox_id)

    assert [] == processes_with(f"MARKER={tmp_path}")


async def test_leaving_the_runtime_leaves_no_process(tmp_path: Path) -> None:
    async with running(tmp_path) as embedded:
        await embedded.start(f"{DAEMON}; while :; do sleep 1; done", **marked(tmp_path))
        await embedded.wrote("away")

    assert [] == processes_with(f"MARKER={tmp_path}")
    assert [] == processes_with(f"{tmp_path}/state/root")


@pytest.mark.parametrize("kind", PREFIXES)
async def test_a_killed_agent_takes_every_process_with_it(tmp_path: Path, kind: str) -> None:
    async with running_apart(kind) as (embedded, agent):
        await embedded.start(f"{DAEMON}; while :; do sleep 1; done", **marked(tmp_path))
        await embedded.wrote("away")
        assert processes_with(f"MARKER={tmp_path}")

        agent.kill()

        await gone(f"MARKER={tmp_path}")
        await gone(str(embedded.logs.parent))  # the keeper, too


async def test_a_killed_keeper_ends_the_containers_and_the_runtime_says_so(tmp_path: Path) -> None:
    async def kill_the_keeper() -> None:
        async with running(tmp_path) as embedded:
            await embedded.start("echo up; exec sleep 4242", **marked(tmp_path))
            await embedded.wrote("up")
            for pid in processes_with(f"{tmp_path}/state/root"):
                with suppress(ProcessLookupError):  # one that ended because the one before it was killed
                    os.kill(pid, signal.SIGKILL)
            with trio.fail_after(WAIT_SECONDS_MAX):
                await trio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as caught:
        await kill_the_keeper()

    # Nothing else: what one hears last is what one looks into.
    assert "KeeperDied: the process that keeps the embedded runtime's containers has died" == reason_of(caught.value)
    await gone(f"MARKER={tmp_path}")
