"""A verb that needs a running container says how the container is, and which command shows more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio

from shell.localkit import FakeView, pod, served
from trikubelet.cli.container_state import problem_of
from trikubelet.cli.main import main
from trikubelet.model import k8s

if TYPE_CHECKING:
    from pathlib import Path

ENDED = k8s.ContainerState(terminated=k8s.ContainerStateTerminated(exit_code=1, reason="Error"))
COMPLETED = k8s.ContainerState(terminated=k8s.ContainerStateTerminated(exit_code=0, reason="Completed"))
KILLED = k8s.ContainerState(terminated=k8s.ContainerStateTerminated(exit_code=137, signal=9))


def waiting(reason: str) -> k8s.ContainerState:
    return k8s.ContainerState(waiting=k8s.ContainerStateWaiting(reason=reason))


def in_state(
    state: k8s.ContainerState | None,
    last: k8s.ContainerState | None = None,
    *,
    containers: tuple[str, ...] = ("app",),
    namespace: str = "default",
    **status: Any,
) -> k8s.Pod:
    """A pod whose container ``app`` is so."""
    made = pod("web-n1", namespace, containers=tuple(k8s.Container(name=name) for name in containers))
    assert made.status is not None
    first, *others = made.status.container_statuses
    changed = msgspec.structs.replace(first, state=state, last_state=last, ready=False)
    return msgspec.structs.replace(
        made, status=msgspec.structs.replace(made.status, container_statuses=(changed, *others), **status)
    )


@pytest.mark.parametrize(
    ("expected", "shown"),
    [
        (
            'container "app" is not running: CrashLoopBackOff, last exit code 1'
            " (see: trikubelet logs web-n1 --previous)",
            in_state(waiting("CrashLoopBackOff"), ENDED),
        ),
        (
            'container "app" is not running: CrashLoopBackOff, last exit code 1'
            " (see: trikubelet logs web-n1 -c app -n edge --previous)",
            in_state(waiting("CrashLoopBackOff"), ENDED, containers=("app", "side"), namespace="edge"),
        ),
        (
            'container "app" is not running: Completed, exit code 0 (see: trikubelet logs web-n1)',
            in_state(COMPLETED, phase="Succeeded"),
        ),
        (
            'container "app" is not running: Signal:9, exit code 137 (see: trikubelet logs web-n1)',
            in_state(KILLED, COMPLETED),
        ),
        (
            'container "app" is not running: ImagePullBackOff (see: trikubelet describe pod web-n1)',
            in_state(waiting("ImagePullBackOff")),
        ),
        (
            'container "app" is not running: it has not started (see: trikubelet describe pod web-n1 -n edge)',
            in_state(None, namespace="edge"),
        ),
        (
            'container "app" is not running: it has not started (see: trikubelet describe pod web-n1)',
            msgspec.structs.replace(pod(), status=None),
        ),
        ("", pod()),
    ],
)
def test_container_that_does_not_run_is_explained_by_its_state_with_the_next_command(
    expected: str, shown: k8s.Pod
) -> None:
    assert expected == problem_of(shown, "app")


def test_containers_of_every_sort_are_known() -> None:
    shown = msgspec.structs.replace(
        pod(),
        spec=k8s.PodSpec(
            init_containers=(k8s.Container(name="init"),),
            containers=(k8s.Container(name="app"),),
            ephemeral_containers=(k8s.EphemeralContainer(name="debug"),),
        ),
        status=k8s.PodStatus(
            init_container_statuses=(status("init", COMPLETED),),
            ephemeral_container_statuses=(status("debug", KILLED),),
        ),
    )

    assert 'pod "web-n1" has no container "nope"; it has init, app, debug' == problem_of(shown, "nope")
    assert 'container "init" is not running: Completed, exit code 0' in problem_of(shown, "init")
    assert 'container "debug" is not running: Signal:9, exit code 137' in problem_of(shown, "debug")


def status(name: str, state: k8s.ContainerState) -> k8s.ContainerStatus:
    return k8s.ContainerStatus(
        name=name, image="i", image_id="i", container_id=f"c://{name}", ready=False, restart_count=0, state=state
    )


@pytest.mark.parametrize(
    "words", [("exec", "web-n1", "--", "true"), ("attach", "web-n1"), ("cp", "web-n1:/etc/hosts", "/dev/null")]
)
async def test_verbs_that_need_a_running_container_say_why_it_does_not_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    crashing = FakeView([in_state(waiting("CrashLoopBackOff"), ENDED)])
    verb, *rest = words
    async with served(crashing, tmp_path) as agent:
        line = [verb, f"--socket={agent.socket_path}", *rest]
        assert 1 == await trio.to_thread.run_sync(main, line)
        assert 1 == await trio.to_thread.run_sync(main, [verb, "-c", "nope", *line[1:]])

    assert (
        'error: container "app" is not running: CrashLoopBackOff, last exit code 1'
        " (see: trikubelet logs web-n1 --previous)\n"
        'error: pod "web-n1" has no container "nope"; it has app\n'
    ) == capsys.readouterr().err


async def test_running_container_that_the_agent_refuses_keeps_the_agents_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with served(FakeView([pod()]), tmp_path) as agent:
        words = ["exec", f"--socket={agent.socket_path}", "web-n1", "--", "true"]
        assert 1 == await trio.to_thread.run_sync(main, words)

    assert "error: pod does not exist\n" == capsys.readouterr().err
