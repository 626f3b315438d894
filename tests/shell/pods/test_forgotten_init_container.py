"""A new agent finds a pod that runs, and no record of its finished init container."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shell.pods.shellkit import Bench, phase, until
from trikubelet.testing.builders import container, pod

if TYPE_CHECKING:
    from trio.testing import MockClock


async def test_static_pod_with_a_lost_init_container_is_running_after_a_restart_of_the_agent(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    web = pod("web", container("main"), init=[container("setup", ("exit", "0", "1"))])
    async with bench.agent(web) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
    (done,) = [one.id for one in bench.world.all_containers() if one.name == "setup"]
    del bench.world.containers[done]

    async with bench.agent(web) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        status = node.statuses.get("uid-web")
        assert status is not None
        (shown,) = status.init_container_statuses
        assert shown.state is not None
        assert shown.state.terminated is not None
        assert ("Completed", 0, True) == (shown.state.terminated.reason, shown.state.terminated.exit_code, shown.ready)
    assert 1 == sum(" start c" in line and "main" in line for line in bench.world.trace)
