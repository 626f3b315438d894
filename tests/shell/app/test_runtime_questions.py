"""Which pods of a runtime a root directory does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shell.pods.shellkit import Bench, phase, until
from trikubelet.app.runtime_questions import listed_pods, unknown_of
from trikubelet.core.unknown_pods import UnknownOnRuntime
from trikubelet.host.pod_directories import REMOVED_PODS
from trikubelet.host.uid_files import UNKNOWN_PODS
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_runtime import MemoryRuntime

if TYPE_CHECKING:
    from pathlib import Path

    from trio.testing import MockClock

JOB = container("once", ["exit", "0", "1"])


async def test_unknown_are_running_and_ended_pods_without_a_directory_or_a_note(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    bench = Bench()
    async with bench.agent(pod("web"), pod("job", JOB, policy="Never")) as node:
        await until(lambda: phase(node, "uid-web") == "Running" and phase(node, "uid-job") == "Succeeded")
        await until(lambda: bench.running() == ["main"])
    listed = await listed_pods(MemoryRuntime(bench.world))
    web = [("default", "web")]

    assert UnknownOnRuntime(web, ended=1) == unknown_of(listed, tmp_path)
    (tmp_path / "pods" / "uid-web").mkdir(parents=True)
    assert UnknownOnRuntime([], ended=1) == unknown_of(listed, tmp_path)
    (tmp_path / REMOVED_PODS).write_text("uid-job\n")
    assert UnknownOnRuntime([]) == unknown_of(listed, tmp_path)
    (tmp_path / UNKNOWN_PODS).write_text("uid-web\n")
    assert UnknownOnRuntime(web) == unknown_of(listed, tmp_path)
