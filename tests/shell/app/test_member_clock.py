"""A machine's clock that jumps by hours and back, and what a member of a cluster makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from shell.memberkit import Bench, until
from trikubelet.core.timestamps import SECOND_NS, parse_rfc3339
from trikubelet.model import k8s
from trikubelet.model.api import LEASES, NODES, PODS
from trikubelet.model.decoding import decode_object
from trikubelet.testing.builders import container, pod

if TYPE_CHECKING:
    from trio.testing import MockClock

JUMP_SECONDS = 7200


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.world.now_ns = bench.clock.now_ns  # one machine, one clock
    return bench


class Renewals:
    """When the cluster saw the lease renewed, as a controller counts: only a later time is a renewal."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._latest_ns = 0
        self.seen_at: list[float] = []

    async def watch(self) -> None:
        while True:
            lease = decode_object(self._bench.server.get(LEASES, "n", "kube-node-lease").raw, k8s.Lease)
            assert lease.spec is not None
            if parse_rfc3339(lease.spec.renew_time) > self._latest_ns:
                self._latest_ns = parse_rfc3339(lease.spec.renew_time)
                self.seen_at.append(trio.current_time())
            await trio.sleep(1)

    def longest_gap(self) -> float:
        return max(after - before for before, after in zip(self.seen_at, self.seen_at[1:], strict=False))


def starts(bench: Bench, pod_name: str) -> int:
    return sum(" start " in line and f" {pod_name}/" in line for line in bench.world.trace)


async def test_a_clock_that_jumps_by_hours_and_back_costs_nothing_that_runs_and_no_heartbeat(
    autojump_clock: MockClock, bench: Bench
) -> None:
    renewals = Renewals(bench)
    crashing = pod("crashing", container("main", ("exit", "1", "20")))
    async with bench.agent(crashing) as (node, _):
        bench.schedule("stays")
        await until(lambda: bench.is_ready("stays"))
        await trio.sleep(1)  # the lease is made once the node is there
        async with trio.open_nursery() as nursery:
            nursery.start_soon(renewals.watch)
            for jump in (JUMP_SECONDS, -JUMP_SECONDS, -JUMP_SECONDS, JUMP_SECONDS):
                await trio.sleep(400)
                crashes_before = starts(bench, "crashing")
                bench.clock.jump(jump)
                await trio.sleep(700)  # twice the longest back-off
                assert starts(bench, "crashing") > crashes_before
                bench.schedule(f"comes{jump}")
                await until(lambda name=f"comes{jump}": bench.is_ready(name), 10)
                bench.server.delete(PODS, f"comes{jump}", "default", None, "")
                await until(lambda name=f"comes{jump}": bench.pod(name) is None, 60)
            nursery.cancel_scope.cancel()

        assert renewals.longest_gap() <= 12
        assert 1 == starts(bench, "stays")
        assert "True" == bench.node_ready().status
        assert [] == [event for event in node.events.all() if event.reason == "NodeNotReady"]
        now_ns = bench.clock.now_ns()
        status = decode_object(bench.server.get(NODES, "n").raw, k8s.Node).status
        assert status is not None
        assert max(now_ns - parse_rfc3339(one.last_heartbeat_time) for one in status.conditions) <= 301 * SECOND_NS
