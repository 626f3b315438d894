"""Signals, systemd, going down and exit codes: the logic on virtual time, and a real process for the rest."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.app import in_process_runtime, tracing
from trikubelet.app.supervise import Supervisor, _end_at_once, is_echo, last_words, reason_of, run
from trikubelet.cri import server
from trikubelet.embedded import commands, link, runtime
from trikubelet.kit.barrier import InvariantBroken
from trikubelet.kit.sd_notify import Notifier
from trikubelet.kit.settle import settled
from trikubelet.model.bounds import Bounds
from trikubelet.model.errors import StartFailed

if TYPE_CHECKING:
    from pathlib import Path

    from trio.testing import MockClock

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within


class Heard(Notifier):
    """A systemd that writes down what it is told, and when."""

    def __init__(self, watchdog_seconds: float | None = None) -> None:
        super().__init__("", watchdog_seconds)
        self.lines: list[tuple[float, str]] = []

    def _send(self, *lines: str) -> None:
        self.lines += [(trio.current_time(), line) for line in lines]

    def times(self, line: str) -> list[float]:
        return [at for at, heard in self.lines if heard == line]


class House:
    """A supervised agent, with a door for signals."""

    def __init__(self, notifier: Heard, stop_seconds_max: float = 10.0) -> None:
        self.notifier = notifier
        self.ended: list[tuple[float, int]] = []
        self.given_back = False
        self.wrong: str | None = None
        self.status = "3 pods"
        self.beside: list[str] = []
        self._signals, self._receive = trio.open_memory_channel[int](10)
        self._all = trio.CancelScope()
        self.supervisor: Supervisor[str] = Supervisor(
            notifier,
            checks=lambda _started: {"syncloop": lambda: self.wrong},
            status=lambda _started: self.status,
            beside=self._beside,
            stop_seconds_max=stop_seconds_max,
            end_now=self._end_now,
            last_signal=self._give_back,
        )

    def signal(self, number: int) -> None:
        self._signals.send_nowait(number)

    async def run(self, main: object) -> None:
        with self._all:
            await self.supervisor.run(main, self._receive)  # type: ignore[arg-type]

    async def _beside(self, started: str) -> None:
        self.beside.append(started)
        await trio.sleep_forever()

    def _end_now(self, code: int) -> None:
        self.ended.append((trio.current_time(), code))
        self._all.cancel()

    def _give_back(self, number: int) -> None:
        self.given_back = number == signal.SIGTERM


async def obedient(*, task_status: trio.TaskStatus[str]) -> None:
    task_status.started("x")
    await trio.sleep_forever()


async def stubborn(*, task_status: trio.TaskStatus[str]) -> None:
    task_status.started("x")
    with trio.CancelScope(shield=True):
        await trio.sleep(1000)


async def test_readiness_is_told_when_main_has_started_and_the_end_when_a_signal_comes(
    autojump_clock: MockClock,
) -> None:
    house = House(Heard())

    async def slow(*, task_status: trio.TaskStatus[str]) -> None:
        await trio.sleep(5)
        await obedient(task_status=task_status)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(house.run, slow)
        await trio.sleep(7)
        house.signal(signal.SIGTERM)

    assert [
        (5, "READY=1"),
        (5, "STATUS=3 pods"),
        (7, "STOPPING=1"),
        (7, "EXTEND_TIMEOUT_USEC=10000000"),  # the time it may take, should TimeoutStopSec be shorter
        (7, "STATUS=stopping: SIGTERM"),
    ] == house.notifier.lines
    assert house.given_back
    assert [] == house.ended
    assert ["x"] == house.beside  # and it kept nothing from its end


async def test_a_signal_while_starting_ends_the_start(autojump_clock: MockClock) -> None:
    house = House(Heard())
    house.signal(signal.SIGINT)

    async def never(*, task_status: trio.TaskStatus[str]) -> None:
        await trio.sleep_forever()

    await house.run(never)

    assert [] == house.notifier.times("READY=1")


async def test_main_has_a_while_to_end_and_then_the_process_ends_without_it(autojump_clock: MockClock) -> None:
    house = House(Heard(), stop_seconds_max=8)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(house.run, stubborn)
        await trio.sleep(1)
        house.signal(signal.SIGTERM)

    assert [(9, 1)] == house.ended


async def test_a_second_signal_ends_the_process_at_once(autojump_clock: MockClock) -> None:
    house = House(Heard())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(house.run, stubborn)
        await trio.sleep(1)
        house.signal(signal.SIGTERM)
        await trio.sleep(1)
        house.signal(signal.SIGINT)

    assert [(2, 1)] == house.ended


async def test_a_signal_that_comes_twice_at_once_is_one(autojump_clock: MockClock) -> None:
    house = House(Heard())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(house.run, stubborn)
        await trio.sleep(1)
        for _ in range(3):
            house.signal(signal.SIGTERM)
        await trio.sleep(1)
        house.signal(signal.SIGTERM)

    assert [(2, 1)] == house.ended


@pytest.mark.parametrize(
    ("expected", "number", "seconds"),
    [
        (True, signal.SIGTERM, 0.001),
        (False, signal.SIGINT, 0.001),
        (False, signal.SIGTERM, 0.1),
    ],
)
def test_only_the_same_signal_within_a_moment_is_the_first_once_more(
    expected: bool, number: int, seconds: float
) -> None:
    assert expected is is_echo(signal.SIGTERM, number, seconds)


async def test_what_needs_a_moment_to_end_gets_it(autojump_clock: MockClock) -> None:
    house = House(Heard())
    farewells: list[float] = []

    async def polite(*, task_status: trio.TaskStatus[str]) -> None:
        task_status.started("x")
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
                await trio.sleep(3)
                farewells.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(house.run, polite)
        await trio.sleep(1)
        house.signal(signal.SIGTERM)

    assert [4] == farewells
    assert [] == house.ended


async def test_a_call_that_is_never_answered_and_the_farewells_fit_into_the_time_of_going_down(
    autojump_clock: MockClock,
) -> None:
    bounds = Bounds()
    house = House(Heard(), stop_seconds_max=bounds.stop_seconds_max)

    async def asking(*, task_status: trio.TaskStatus[str]) -> None:
        task_status.started("x")
        try:
            async with settled(bounds.settle_seconds_max):
                await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + bounds.farewell_seconds_max):
                await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(house.run, asking)
        await trio.sleep(1)
        house.signal(signal.SIGTERM)

    assert [] == house.ended
    assert bounds.stop_seconds_max > trio.current_time() - 1


def test_no_bounds_are_made_that_leave_no_time_for_a_call_and_the_farewells() -> None:
    Bounds(settle_seconds_max=3, farewell_seconds_max=4, stop_seconds_max=7.5)
    with pytest.raises(ValueError, match="settle_seconds_max=3 and farewell_seconds_max=4 leave nothing"):
        Bounds(settle_seconds_max=3, farewell_seconds_max=4, stop_seconds_max=7)


def test_every_service_has_said_goodbye_in_the_time_that_the_bounds_give() -> None:
    calls = server.FAREWELL_SECONDS_MAX + commands.DRAIN_SECONDS_MAX
    keeper = link.END_SECONDS_MAX + link.KILLED_SECONDS_MAX
    volumes = in_process_runtime.UNMOUNT_SECONDS_MAX
    containers = runtime.FAREWELL_SECONDS_MAX + runtime.RECORDING_SECONDS_MAX
    assert calls + containers + keeper + volumes < Bounds().farewell_seconds_max
    assert tracing.FAREWELL_SECONDS_MAX < Bounds().farewell_seconds_max


async def test_the_watchdog_gets_a_sign_of_life_twice_per_period_while_the_checks_pass(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    house = House(Heard(watchdog_seconds=10))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(house.run, obedient)
        await trio.sleep(11.5)
        house.wrong = "no pass for 400 s"
        await trio.sleep(10)
        house.wrong = None
        await trio.sleep(10)
        house.signal(signal.SIGTERM)

    # At 15 the checks fail; once they pass again the sign that was due is given, and the beat of five goes on.
    assert [0, 5, 10, 22, 22, 25, 30] == [round(at) for at in house.notifier.times("WATCHDOG=1")]
    assert 1 == sum("Watchdog not notified" in message for message in caplog.messages)


async def test_without_a_watchdog_there_are_no_signs_of_life(autojump_clock: MockClock) -> None:
    house = House(Heard())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(house.run, obedient)
        await trio.sleep(100)
        house.signal(signal.SIGTERM)

    assert [] == house.notifier.times("WATCHDOG=1")


async def test_a_watchdog_too_short_to_be_kept_is_refused(autojump_clock: MockClock) -> None:
    with pytest.raises(StartFailed, match="WatchdogSec=1 is too short"):
        await House(Heard(watchdog_seconds=1)).run(obedient)


async def test_the_status_line_follows_the_agent(autojump_clock: MockClock) -> None:
    house = House(Heard())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(house.run, obedient)
        await trio.sleep(11)
        house.status = "4 pods"
        await trio.sleep(30)
        house.signal(signal.SIGTERM)

    assert [20] == house.notifier.times("STATUS=4 pods")


async def test_systemd_is_told_to_the_end_that_the_agent_goes_down(autojump_clock: MockClock) -> None:
    house = House(Heard(watchdog_seconds=10), stop_seconds_max=60)

    async def slow(*, task_status: trio.TaskStatus[str]) -> None:
        task_status.started("x")
        with trio.CancelScope(shield=True):
            await trio.sleep(42)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(house.run, slow)
        await trio.sleep(1)
        house.signal(signal.SIGTERM)
        house.status = "2 pods"

    assert "STATUS=stopping: SIGTERM" == [line for _, line in house.notifier.lines if line.startswith("STATUS=")][-1]
    assert 40 == round(house.notifier.times("WATCHDOG=1")[-1])  # it is alive all the while


async def test_main_may_end_by_itself(autojump_clock: MockClock) -> None:
    async def brief(*, task_status: trio.TaskStatus[str]) -> None:
        task_status.started("x")

    await House(Heard()).run(brief)


async def test_what_main_raises_is_raised(autojump_clock: MockClock) -> None:
    async def broken(*, task_status: trio.TaskStatus[str]) -> None:
        task_status.started("x")
        raise InvariantBroken("two writers")

    with pytest.raises(ExceptionGroup) as raised:
        await House(Heard()).run(broken)
    assert "InvariantBroken: two writers" == reason_of(raised.value)


def test_the_reason_is_every_root_cause_once() -> None:
    group = ExceptionGroup(
        "outer",
        [ExceptionGroup("inner", [OSError("disk\ngone"), ValueError()]), OSError("disk\ngone"), StartFailed("a\nb")],
    )

    assert "OSError: disk gone; ValueError; a b" == reason_of(group)


def test_a_start_that_failed_is_told_line_by_line_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    stderr = io.StringIO()

    assert 1 == last_words(ExceptionGroup("x", [StartFailed("f:1: bad\nf:2: worse")]), stderr)
    assert "error: f:1: bad\nerror: f:2: worse\n" == stderr.getvalue()
    assert [] == caplog.messages


def test_a_broken_part_is_logged_with_its_traceback_and_the_reason_is_the_last_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(*, task_status: trio.TaskStatus[str]) -> None:
        task_status.started("x")
        raise InvariantBroken("the local API ended by itself")

    stderr = io.StringIO()
    before = signal.getsignal(signal.SIGTERM)
    code = run(
        main, checks=lambda _: {}, status=lambda _: "well", stop_seconds_max=10, notifier=Notifier(), stderr=stderr
    )

    assert 1 == code
    assert "error: InvariantBroken: the local API ended by itself\n" == stderr.getvalue()
    assert "The agent ends" in caplog.messages
    assert before == signal.getsignal(signal.SIGTERM)


# ---- a real process ----

PROGRAM = """
import sys, trio
from trikubelet.app.supervise import run
from trikubelet.kit.klog import LogHandler, Verbosity, install

async def main(*, task_status):
    task_status.started(None)
    try:
        await trio.sleep_forever()
    finally:
        if "stubborn" in sys.argv:
            with trio.CancelScope(shield=True):
                await trio.sleep(1000)
        if "stuck" in sys.argv:
            import time
            print("stuck", flush=True)
            time.sleep(1000)
        if "wordy" in sys.argv:
            import fcntl, os
            flags = fcntl.fcntl(2, fcntl.F_GETFL)
            fcntl.fcntl(2, fcntl.F_SETFL, flags | os.O_NONBLOCK)
            try:
                while True:
                    os.write(2, b"x" * 4096)
            except BlockingIOError:
                fcntl.fcntl(2, fcntl.F_SETFL, flags)
            print("full", flush=True)
            os.write(2, b"x")

install(LogHandler(Verbosity(2)))
sys.exit(run(main, checks=lambda _: {}, status=lambda _: "well", stop_seconds_max=60))
"""


class Process:
    """The program above under a systemd of ours."""

    def __init__(self, directory: Path, *words: str) -> None:
        self.systemd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.systemd.settimeout(60)
        self.systemd.bind(str(directory / "notify"))
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *words],
            env={**os.environ, "NOTIFY_SOCKET": str(directory / "notify"), "WATCHDOG_USEC": "60000000"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        self.systemd.close()

    def hears(self, line: str) -> None:
        """Wait until systemd is told this."""
        while line not in self.systemd.recv(4096).decode().split("\n"):
            pass

    def end(self) -> tuple[int, str]:
        """The exit code and what was logged."""
        _, logged = self.process.communicate(timeout=60)
        return self.process.returncode, logged


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_real_process_in_good_order(tmp_path: Path, number: signal.Signals) -> None:
    with Process(tmp_path) as process:
        process.hears("READY=1")
        process.process.send_signal(number)
        process.hears("STOPPING=1")
        code, logged = process.end()

    assert 0 == code
    assert f"Stopping: {number.name}" in logged
    assert logged.rstrip().endswith("] Ended")


def test_a_handler_that_hears_the_first_signal_once_more_does_nothing() -> None:
    _end_at_once(signal.SIGTERM, time.monotonic() + 60, signal.SIGTERM, None)  # else it ends this process


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stubborn", "stuck"])
def test_a_second_signal_ends_a_real_process_even_when_its_loop_is_stuck(tmp_path: Path, how: str) -> None:
    with Process(tmp_path, how) as process:
        process.hears("READY=1")
        process.process.send_signal(signal.SIGTERM)
        process.hears("STOPPING=1")
        if how == "stuck":
            assert process.process.stdout is not None
            assert "stuck\n" == process.process.stdout.readline()
        process.process.send_signal(signal.SIGINT)
        code, logged = process.end()

    assert 1 == code
    assert "error: ended at once: SIGINT came while stopping" == logged.splitlines()[-1]


@pytest.mark.slow
def test_second_signal_ends_a_process_with_an_unread_log(tmp_path: Path) -> None:
    with Process(tmp_path, "wordy") as process:
        process.hears("READY=1")
        process.process.send_signal(signal.SIGTERM)
        process.hears("STOPPING=1")
        assert process.process.stdout is not None
        assert "full\n" == process.process.stdout.readline()
        process.process.send_signal(signal.SIGINT)

        assert 1 == process.process.wait(timeout=60)
