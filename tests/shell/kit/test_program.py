"""Programs that answer on their standard output: told, heard, and ended."""

from __future__ import annotations

import errno
import os
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trikubelet.kit import process_start, program
from trikubelet.kit.process_start import ProgramStarts, StartedProcess
from trikubelet.kit.program import NotStarted, ProgramFailed, run_program

if TYPE_CHECKING:
    from trio.testing import MockClock

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


run = partial(run_program, run_seconds_max=60.0)


def python(text: str) -> list[str]:
    return [sys.executable, "-S", "-c", f"import os, sys, time\n{text}"]


async def test_it_is_told_something_in_its_own_environment_and_its_answer_is_heard() -> None:
    answer = await run(
        python("print(os.environ['A'], sys.stdin.read().upper(), end='')"), {**os.environ, "A": "b"}, b"question"
    )
    assert b"b QUESTION" == answer


async def test_one_that_does_not_listen_is_no_problem() -> None:
    assert b"x" == await run(python("print('x', end='')"), os.environ, b"q" * 1_000_000)


async def test_only_so_much_of_what_it_says_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "OUTPUT_BYTES_MAX", 10)
    assert b"x" * 10 == await run(python("sys.stdout.write('x' * 200_000)"), os.environ)


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("ended with 3: no such registry", "print('no such registry', file=sys.stderr); sys.exit(3)"),
        ("ended with 1: nothing on stderr", "sys.exit(1)"),
        ("ended with -9: nothing on stderr", "os.kill(os.getpid(), 9)"),
    ],
)
async def test_one_that_fails_is_quoted(expected: str, text: str) -> None:
    with pytest.raises(ProgramFailed) as failed:
        await run(python(text), os.environ)
    assert expected == str(failed.value)


async def test_one_that_is_not_there_is_told_apart() -> None:
    with pytest.raises(NotStarted, match="cannot be started: No such file or directory"):
        await run(["/no/such/program"], os.environ)


@pytest.mark.parametrize("lacks", ["the kernel", "Python"])
async def test_without_a_descriptor_of_its_end_it_is_looked_for(monkeypatch: pytest.MonkeyPatch, lacks: str) -> None:
    def none(_pid: int) -> int:
        raise OSError(errno.ENOSYS, "Function not implemented")

    if lacks == "Python":
        monkeypatch.delattr(os, "pidfd_open")
    else:
        monkeypatch.setattr(os, "pidfd_open", none)
    before = os.listdir("/proc/self/fd")
    assert b"hi\n" == await run(["echo", "hi"], {})
    assert before == os.listdir("/proc/self/fd")


async def test_no_descriptor_of_it_stays() -> None:
    await run(["true"], {})  # what is opened but once is there now
    before = os.listdir("/proc/self/fd")
    await run(["true"], {})
    assert before == os.listdir("/proc/self/fd")


async def test_a_start_that_hangs_says_nothing_about_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = ProgramStarts()
    monkeypatch.setattr(process_start, "STARTS", starts)
    monkeypatch.setattr(process_start, "LATE_MAX", 0)
    with pytest.raises(ProgramFailed, match="cannot be started now: 0 programs have not been started yet") as failed:
        await run(["true"], {})
    assert type(failed.value) is ProgramFailed


async def test_one_that_hangs_is_killed() -> None:
    with trio.fail_after(60), pytest.raises(ProgramFailed, match=r"has not ended within 0\.5 s"):
        await run_program(python("time.sleep(600)"), os.environ, run_seconds_max=0.5)


async def test_a_child_that_holds_the_pipes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "LEFT_OVER_SECONDS_MAX", 0.1)
    text = "child = os.fork()\nif child == 0: time.sleep(600)\nprint(child, end='', flush=True)"
    with trio.fail_after(60):
        child = int(await run(python(text), os.environ))
    os.kill(child, signal.SIGKILL)


async def test_one_that_ended_in_time_is_heard_though_its_child_holds_the_pipes_beyond(
    monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    """On a clock that stands still until the program has ended."""
    monkeypatch.setattr(program, "LEFT_OVER_SECONDS_MAX", 6)
    has_ended, wait = trio.Event(), StartedProcess.wait

    async def waited(process: StartedProcess) -> int:
        code = await wait(process)
        has_ended.set()
        return code

    async def hear() -> None:
        heard.append(await run_program(["/bin/sh", "-c", "sleep 600 & echo $!"], os.environ, run_seconds_max=5))

    monkeypatch.setattr(StartedProcess, "wait", waited)
    heard: list[bytes] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hear)
        await has_ended.wait()
        await wait_all_tasks_blocked()
        mock_clock.jump(5.5)
        await wait_all_tasks_blocked()
        assert [] == heard
        mock_clock.jump(1)
    (answer,) = heard
    os.kill(int(answer), signal.SIGKILL)


async def test_one_that_hangs_and_may_not_be_killed_is_told_as_another(monkeypatch: pytest.MonkeyPatch) -> None:
    def killed_by_its_owner(group: int, number: int) -> None:
        kill(group, number)
        raise PermissionError(errno.EPERM, "Operation not permitted")

    kill = os.killpg
    monkeypatch.setattr(os, "killpg", killed_by_its_owner)
    with trio.fail_after(60), pytest.raises(ProgramFailed, match=r"has not ended within 0\.5 s"):
        await run_program(["/bin/sleep", "600"], os.environ, run_seconds_max=0.5)
