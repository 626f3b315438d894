"""``wait``: what is waited for, and what is said when it comes, or does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
import trio

from shell.localkit import FakeView, pod, served
from trikubelet.cli.commands import wait
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.main import main
from trikubelet.model import k8s

if TYPE_CHECKING:
    from pathlib import Path


def in_phase(phase: str, ready: str = "False", name: str = "web-n1", uid: str = "") -> k8s.Pod:
    made = pod(name, uid=uid)
    assert made.status is not None
    conditions = (k8s.PodCondition(type="Ready", status=ready),)
    return msgspec.structs.replace(
        made, status=msgspec.structs.replace(made.status, phase=phase, conditions=conditions)
    )


@pytest.mark.parametrize(
    ("met", "goal", "one"),
    [
        (True, "condition=Ready", in_phase("Running", "True")),
        (True, "condition=ready", in_phase("Running", "True")),
        (False, "condition=Ready", in_phase("Running")),
        (True, "condition=Ready=False", in_phase("Running")),
        (False, "condition=Initialized", in_phase("Running")),
        (True, "phase=Succeeded", in_phase("Succeeded")),
        (False, "phase=Succeeded", in_phase("Running")),
        (False, "phase=Succeeded", msgspec.structs.replace(pod(), status=None)),
        (True, "jsonpath={.status.phase}=Running", in_phase("Running")),
        (False, "jsonpath={.status.phase}=Running", in_phase("Pending")),
        (False, "jsonpath={.status.containerStatuses[7].ready}=true", in_phase("Running")),
        (False, "jsonpath={.status.containerStatuses[7].ready}=", in_phase("Running")),
        (True, 'jsonpath={.status.containerStatuses[?(@.name=="app")].ready}=true', in_phase("Running")),
    ],
)
def test_a_goal_is_met_or_not(met: bool, goal: str, one: k8s.Pod) -> None:
    test = wait.read_goal(goal)
    assert test is not None
    assert met == test(one)


@pytest.mark.parametrize("said", ["ready", "condition=", "phase", "jsonpath=.a=b", "created", "create=x"])
def test_what_is_no_goal_is_refused_with_what_there_is(capsys: pytest.CaptureFixture[str], said: str) -> None:
    assert 2 == main(["wait", "web", f"--for={said}"])
    assert f"{said!r} is none of condition=TYPE[=VALUE], phase=PHASE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("why", "words"),
    [
        ("missing argument: give names, -l or --all", []),
        ("missing argument: give names, -l or --all", ["pods"]),
        ("names and --all exclude each other", ["pod", "web-n1", "--all"]),
    ],
)
def test_wait_needs_a_selection(capsys: pytest.CaptureFixture[str], why: str, words: list[str]) -> None:
    assert 2 == main(["wait", *words, "--for=delete"])
    assert capsys.readouterr().err.startswith(f"error: {why}")


async def test_pods_are_named_as_kubectl_has_them_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with served(FakeView([in_phase("Running")]), tmp_path) as agent:
        for words in (["pod", "web-n1"], ["pod/web-n1"], ["pods", "--all"]):
            line = ["wait", *words, "--for=phase=Running", f"--socket={agent.socket_path}"]
            assert 0 == await trio.to_thread.run_sync(main, line)
            assert "pod/web-n1 condition met\n" == capsys.readouterr().out


async def waiting(place: Path, view: FakeView, *words: str, later: list[k8s.Pod] | None = None) -> str:
    """Wait; ten seconds on the pods are others. What went wrong, or nothing."""

    async def change() -> None:
        await trio.sleep(10)
        view.shown = view.shown if later is None else later

    async with served(view, place) as agent, trio.open_nursery() as nursery:
        nursery.start_soon(change)
        args = wait.parser().parse_args([*words, f"--socket={agent.socket_path}"])
        try:
            await wait._wait(args)
        except CommandFailed as error:
            failed = error
        else:
            return ""
    return str(failed)


async def test_each_pod_is_told_of_when_its_time_comes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], autojump_clock
) -> None:
    view = FakeView([in_phase("Running", "True", "a-n1"), in_phase("Pending", name="b-n1")])
    later = [in_phase("Running", "True", "b-n1")]

    await waiting(tmp_path, view, "a-n1", "b-n1", "--for=condition=Ready", later=later)

    assert "pod/a-n1 condition met\npod/b-n1 condition met\n" == capsys.readouterr().out


async def test_a_pod_that_is_not_there_yet_is_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], autojump_clock
) -> None:
    await waiting(tmp_path, FakeView(), "web-n1", "--for=phase=Running", later=[in_phase("Running")])

    assert "pod/web-n1 condition met\n" == capsys.readouterr().out


@pytest.mark.parametrize("words", [["web-n1"], ["-l", "!none"], ["--all"]])
async def test_pods_that_are_named_or_selected_are_waited_for_until_they_are_created(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], autojump_clock
) -> None:
    later = [in_phase("Pending")]

    assert "" == await waiting(tmp_path, FakeView(), *words, "--for=create", later=later)
    assert "pod/web-n1 condition met\n" == capsys.readouterr().out
    assert 10 <= trio.current_time() <= 11


async def test_a_pod_is_deleted_when_its_life_is_over_whether_or_not_another_follows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], autojump_clock
) -> None:
    view = FakeView([in_phase("Running", name="a-n1"), in_phase("Running", name="b-n1", uid="old")])

    await waiting(tmp_path, view, "--all", "--for=delete", later=[in_phase("Running", name="b-n1", uid="new")])

    assert "pod/a-n1 deleted\npod/b-n1 deleted\n" == capsys.readouterr().out


@pytest.mark.parametrize(
    ("why", "words"),
    [
        ("timed out waiting for the condition on pods/web-n1", ["web-n1", "--for=phase=Failed"]),
        ('pods "wob-n1" not found (did you mean "web-n1"?)', ["wob-n1", "--for=phase=Failed"]),
        ("timed out waiting for the condition on pods/web-n1", ["--all", "--for=delete", "--timeout=1m"]),
        ("no matching resources found", ["-l", "app=x", "--for=phase=Failed"]),
        ("timed out waiting for the condition: no pod matches", ["-l", "app=x", "--for=create"]),
        ('pods "wob-n1" not found (did you mean "web-n1"?)', ["wob-n1", "--for=create"]),
    ],
)
async def test_what_does_not_come_in_time_is_reported(
    tmp_path: Path, autojump_clock, why: str, words: list[str]
) -> None:
    assert why == await waiting(tmp_path, FakeView([in_phase("Running")]), *words)
