"""``restart``: it says what it has begun, and with ``--wait`` returns when the new containers are ready."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
import trio

from shell.cli.test_container_state import COMPLETED, ENDED, waiting
from shell.localkit import FakeAgent, FakeView, pod, served
from trikubelet.cli.commands import restart
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.main import main
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trio.testing import MockClock

TWO = tuple(k8s.Container(name=name) for name in ("app", "side"))


async def test_restart_says_that_containers_are_being_restarted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    about = FakeAgent()

    async def said(*words: str) -> tuple[int, str, str]:
        async with served(FakeView([pod("web-n1")]), tmp_path, about) as agent:
            code = await trio.to_thread.run_sync(main, ["restart", *words, f"--socket={agent.socket_path}"])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    line = "pod/web-n1 container {} is being restarted\n"
    assert (0, line.format("app") + line.format("side"), "") == await said("pod/web-n1")
    assert (0, line.format("side"), "") == await said("pod", "web-n1", "-c", "side")
    assert 2 == (await said("pod"))[0]
    assert ["default/web-n1/", "default/web-n1/side"] == about.restarted
    assert (1, "", "error: no such container\n") == await said("web-n1", "-c", "none")
    assert (1, "", 'error: pods "web" not found (did you mean "web-n1"?)\n') == await said("web")


def test_a_timeout_without_wait_is_invalid_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["restart", "web", "--timeout=5s"])
    assert capsys.readouterr().err.startswith("error: --timeout limits --wait: add --wait, or leave it out;")


def run_of(*, ready: bool, number: int = 1, phase: str = "Running") -> k8s.Pod:
    """The pod after ``number`` restarts of each of its containers."""
    made = pod("web-n1", containers=TWO)
    assert made.status is not None
    statuses = tuple(
        msgspec.structs.replace(one, container_id=f"c://{one.name}{number or ''}", restart_count=number, ready=ready)
        for one in made.status.container_statuses
    )
    return msgspec.structs.replace(
        made, status=msgspec.structs.replace(made.status, container_statuses=statuses, phase=phase)
    )


def in_state(state: k8s.ContainerState, last: k8s.ContainerState | None = None, phase: str = "Running") -> k8s.Pod:
    """The pod when its containers are so."""
    made = run_of(ready=False, number=0, phase=phase)
    assert made.status is not None
    statuses = tuple(
        msgspec.structs.replace(one, state=state, last_state=last) for one in made.status.container_statuses
    )
    return msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, container_statuses=statuses))


async def waited(view: FakeView, directory: Path, *changes: Callable[[], None], words: tuple[str, ...] = ()) -> float:
    """Return how long ``restart --wait`` took while these changes came, ten seconds apart."""
    async with served(view, directory) as agent, trio.open_nursery() as nursery:

        async def change() -> None:
            for one in changes:
                await trio.sleep(10)
                one()

        nursery.start_soon(change)
        began = trio.current_time()
        args = restart.parser().parse_args(["web-n1", "--wait", f"--socket={agent.socket_path}", *words])
        try:
            await restart._restart(args)
        except CommandFailed as error:  # not in a group
            nursery.cancel_scope.cancel()
            failed = error
        else:
            return trio.current_time() - began
    raise failed


async def test_wait_returns_when_every_new_container_is_ready(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], autojump_clock: MockClock
) -> None:
    view = FakeView([run_of(ready=True, number=0)])

    def show(*pods: k8s.Pod) -> Callable[[], None]:
        return lambda: setattr(view, "shown", list(pods))

    seconds = await waited(
        view,
        tmp_path,
        show(in_state(ENDED)),
        show(in_state(waiting("CrashLoopBackOff"), ENDED)),
        show(),  # its manifest is replaced
        show(run_of(ready=False)),
        show(run_of(ready=True)),
    )

    assert 50 <= seconds <= 51
    line = "pod/web-n1 container {} {}\n"
    assert "".join(
        line.format(name, how) for how in ("is being restarted", "restarted") for name in ("app", "side")
    ) == (capsys.readouterr().out)


@pytest.mark.parametrize(
    ("why", "shown"),
    [
        ("it is not ready", run_of(ready=False)),
        ("its old run has not ended", run_of(ready=True, number=0)),
        (
            'container "app" is not running: CrashLoopBackOff, last exit code 1'
            " (see: trikubelet logs web-n1 -c app --previous)",
            in_state(waiting("CrashLoopBackOff"), ENDED),
        ),
        ("the pod is gone", None),
    ],
)
async def test_wait_that_times_out_says_how_each_container_is(
    tmp_path: Path, autojump_clock: MockClock, why: str, shown: k8s.Pod | None
) -> None:
    view = FakeView([run_of(ready=True, number=0)])
    begun = trio.current_time()

    with pytest.raises(CommandFailed) as failed:
        await waited(view, tmp_path, lambda: setattr(view, "shown", [shown] if shown else []), words=("--timeout=1m",))

    first, second = str(failed.value).split("\nerror: ")
    assert f"timed out waiting for the restart of pod/web-n1 container app: {why}" == first
    assert second.startswith("timed out waiting for the restart of pod/web-n1 container side: ")
    assert 60 <= trio.current_time() - begun <= 61


async def test_wait_ends_at_once_when_the_pod_ends_instead(tmp_path: Path, autojump_clock: MockClock) -> None:
    """As a pod whose time (activeDeadlineSeconds) runs out meanwhile."""
    view = FakeView([run_of(ready=True, number=0)])
    ended = in_state(COMPLETED, phase="Succeeded")

    with pytest.raises(CommandFailed, match='was not restarted: container "app" is not running: Completed, exit code'):
        await waited(view, tmp_path, lambda: setattr(view, "shown", [ended]))

    assert 10 <= trio.current_time() <= 11
