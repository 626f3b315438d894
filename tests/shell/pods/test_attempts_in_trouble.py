"""What an attempt does when the disk takes nothing, or when it takes too long: told where a user looks, and no bug."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest
import trio

from shell.pods.shellkit import Bench, phase, until
from trikubelet.testing.builders import pod

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trio.testing import MockClock

    from trikubelet.model.k8s import Pod

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/pods")


@pytest.mark.parametrize(
    ("method", "reason", "message"),
    [
        ("make_pod", "FailedToMakePodDataDirectories", "error making pod data directories: [Errno 28] No space left"),
        ("make_log_directory", "FailedCreatePodSandBox", "Failed to create pod sandbox: [Errno 28] No space left"),
        ("write_hosts", "Failed", "Error: [Errno 28] No space left"),
        ("termination_log", "Failed", "Error: [Errno 28] No space left"),
    ],
)
async def test_a_full_disk_is_told_and_tried_again_and_is_no_bug(
    method: str,
    reason: str,
    message: str,
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def full(*_: object) -> str:
        raise FULL

    bench = Bench()
    with monkeypatch.context() as patch:
        patch.setattr(bench.files, method, full)
        async with bench.agent(pod("web")) as node:
            await until(lambda: any(event.reason == reason for event in node.events.all()))
            event = next(event for event in node.events.all() if event.reason == reason)
            worker = node.workers.worker("uid-web")
            assert worker is not None
            await until(lambda: worker.statistics().failures > 0)

            assert message in event.message
            assert "No space left on device" in worker.statistics().last_error
            assert "a bug in its worker" not in caplog.text
            patch.undo()
            await until(lambda: phase(node, "uid-web") == "Running")


async def test_a_deadline_that_passes_during_a_slow_attempt_is_met_right_after_it(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()
    set_up = bench.volumes.set_up

    async def slow(wanted: Pod) -> Mapping[str, str]:
        await trio.sleep(30)
        return await set_up(wanted)

    async with bench.agent(pod("web", active_deadline_seconds=20)) as node:
        await until(lambda: bench.running() == ["main"])
        await trio.sleep(10)
        monkeypatch.setattr(bench.volumes, "set_up", slow)
        worker = node.workers.worker("uid-web")
        assert worker is not None
        worker.wake()
        await until(lambda: phase(node, "uid-web") == "Failed", 40)
