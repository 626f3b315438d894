"""A static pod whose manifest was removed and written again ends and starts again, as the same pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shell.pods.shellkit import Bench, phase, until
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod

if TYPE_CHECKING:
    from trio.testing import MockClock


async def test_rewritten_manifest_restarts_its_pod_with_grace(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    web = pod("web", container("main"))
    async with bench.agent(web) as node:
        for life in (1, 2):
            await until(lambda: phase(node, "uid-web") == "Running")
            node.slots["file"].put(Snapshot((web,), lives={"uid-web": life}))
            await until(lambda: life == sum("main ended with 143" in line for line in bench.world.trace))  # noqa: B023
            await until(lambda: ["main"] == bench.running())
        assert 3 == sum("RunPodSandbox" in line for line in bench.world.trace)
