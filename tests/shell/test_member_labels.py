"""A member of a cluster admits pods by the labels its node has now, whatever it has heard of them so far."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
import trio

from shell.memberkit import Bench, until
from trikubelet.app.report import Reporter
from trikubelet.model.api import NODES, PatchKind
from trikubelet.model.api_errors import ApiFailure
from trikubelet.testing.memory_api import Fail

if TYPE_CHECKING:
    from trio.testing import MockClock


@pytest.fixture
def bench() -> Bench:
    return Bench()


def label(bench: Bench, **labels: str) -> None:
    bench.server.patch(NODES, "n", {"metadata": {"labels": labels}}, kind=PatchKind.STRATEGIC)


@pytest.mark.parametrize("way", ["nothing", "the node is not got at first", "the report takes its time"])
async def test_an_agent_that_is_restarted_knows_its_labels_before_it_admits(
    autojump_clock: MockClock, bench: Bench, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench.agent() as (_, member):
        await member.publisher.registered.wait()
        label(bench, disk="ssd")
    bench.schedule("web", node_selector={"disk": "ssd"})
    if way == "the node is not got at first":
        bench.api.plan("get", Fail(ApiFailure("etcdserver: leader changed")))
    elif way == "the report takes its time":
        report = Reporter.report

        async def late(reporter: Reporter) -> Any:
            await trio.sleep(1)
            return await report(reporter)

        monkeypatch.setattr(Reporter, "report", late)

    async with bench.agent():
        await until(lambda: bench.phase("web") not in ("", "Pending"))

    assert "Running" == bench.phase("web")


async def test_labels_given_after_etcd_was_restored_from_a_backup_count(
    autojump_clock: MockClock, bench: Bench
) -> None:
    store = bench.server.store
    async with bench.agent() as (_, member):
        await member.publisher.registered.wait()
        await trio.sleep(15)
        backup = store.version, copy.deepcopy(store._objects)
        for n in range(100):
            label(bench, later=f"{n}")
        await until(lambda: member.publisher.node == member.own.objects["", "n"])
        bench.link.down()
        (store.version, store._objects), before = backup, store.version
        store.forget()
        bench.link.up()
        label(bench, disk="ssd")
        await trio.sleep(300)  # a watch that says nothing is believed for so long
        bench.schedule("web", node_selector={"disk": "ssd"})
        await until(lambda: bench.phase("web") not in ("", "Pending"))
        assert store.version < before

    assert "Running" == bench.phase("web")
