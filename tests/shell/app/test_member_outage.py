"""An hour without an API server: what it may not cost a member of a cluster."""

from __future__ import annotations

import gc
import logging
from typing import TYPE_CHECKING

import pytest
import trio

from shell.memberkit import Bench, until
from trikubelet.core.timestamps import parse_rfc3339
from trikubelet.model import k8s
from trikubelet.model.api import LEASES, PODS
from trikubelet.model.decoding import decode_object
from trikubelet.testing.builders import container, pod

if TYPE_CHECKING:
    from trio.testing import MockClock

OBJECTS_MORE_MAX = 100
"""After 45 minutes more of it. What is kept of one failure or one restart would be many times that."""
REQUESTS_BACK_MAX = 40
GONE_SECONDS_MAX = 5.0
"""The longest pause of the lease, whose answer wakes the other parts, and a second for the list and the stop."""


@pytest.fixture
def bench() -> Bench:
    return Bench()


class Lines(logging.Handler):
    """Counts what is said of outages. pytest's own would keep every line with its error and all its frames."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += record.name == "trikubelet.kit.outage"


def renewed_ns(bench: Bench) -> int:
    lease = decode_object(bench.server.get(LEASES, "n", "kube-node-lease").raw, k8s.Lease)
    assert lease.spec is not None
    return parse_rfc3339(lease.spec.renew_time)


def objects_alive() -> int:
    gc.collect()
    return len(gc.get_objects())


@pytest.mark.slow
async def test_an_hour_s_outage_costs_no_memory_and_a_line_a_minute_and_is_made_up_for_in_seconds(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, logger = Lines(), logging.getLogger("trikubelet")
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(logger, "handlers", [lines])
    crashing = pod("static", container("main", ("exit", "1", "7")))
    async with bench.agent(crashing) as (node, member):
        for name in ("stays", "goes", "replaced"):
            bench.schedule(name)
        await until(lambda: all(bench.is_ready(name) for name in ("stays", "goes", "replaced")))
        await trio.sleep(1)  # the lease is made once the node is there
        bench.world.keeps_trace = False
        bench.link.down()
        await trio.sleep(900)
        lines_before = lines.count
        objects_before = objects_alive()
        await trio.sleep(2700)

        assert 40 <= lines.count - lines_before <= 46
        assert objects_alive() - objects_before <= OBJECTS_MORE_MAX
        assert member.writer.figures().waiting <= 4
        assert member.events.figures().waiting <= node.bounds.events_waiting_max

        bench.server.delete(PODS, "goes", "default", None, "")
        bench.server.delete(PODS, "replaced", "default", 0, "")
        bench.schedule("replaced")
        bench.schedule("new")
        before = len(bench.api.requests)
        bench.link.up()
        await trio.sleep(1)
        assert len(bench.api.requests) - before <= REQUESTS_BACK_MAX
        await until(
            lambda: (
                bench.pod("goes") is None
                and all(bench.is_ready(name) for name in ("stays", "replaced", "new"))
                and bench.clock.now_ns() - renewed_ns(bench) < 10 * 10**9
            ),
            45,
        )


@pytest.mark.parametrize("away_seconds", range(60, 75))
async def test_pod_that_was_force_deleted_in_an_outage_is_gone_within_seconds(
    autojump_clock: MockClock, bench: Bench, away_seconds: int
) -> None:
    async with bench.agent():
        bench.schedule("goes")
        await until(lambda: bench.is_ready("goes"))
        await trio.sleep(20)  # so that all parts are at rest when the outage begins
        bench.link.down()
        await trio.sleep(away_seconds)
        bench.server.delete(PODS, "goes", "default", 0, "")
        bench.link.up()

        await until(lambda: not bench.running(), GONE_SECONDS_MAX)
