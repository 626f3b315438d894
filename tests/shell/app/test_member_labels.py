"""A member of a cluster admits pods by the labels its node has now, whatever it has heard of them so far."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
import trio

from shell.memberkit import Bench, until
from trikubelet.app.report import Reporter
from trikubelet.kube.informer import Informer
from trikubelet.model.api import NODES, PatchKind
from trikubelet.model.api_errors import ApiFailure
from trikubelet.testing.memory_api import Fail, Hang

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


def hold_back(node_watch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch of the node's own object says nothing any more."""
    monkeypatch.setattr(node_watch, "_publish", lambda *_, **__: None)


@pytest.mark.parametrize("failures", [0, 1])
async def test_a_pod_is_not_rejected_for_a_label_that_its_watch_has_yet_to_bring(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    async with bench.agent() as (_, member):
        await member.publisher.registered.wait()
        await trio.sleep(5)
        hold_back(member.own, monkeypatch)
        label(bench, disk="ssd")
        bench.api.plan("get", *[Fail(ApiFailure("etcdserver: leader changed"))] * failures)
        bench.schedule("web", node_selector={"disk": "ssd"})
        await until(lambda: bench.phase("web") not in ("", "Pending"))

    assert "Running" == bench.phase("web")


async def test_a_second_look_counts_before_the_node_is_taken_up(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench.agent() as (_, member):
        await member.publisher.registered.wait()
    report = Reporter.report

    async def late(reporter: Reporter) -> Any:
        await trio.sleep(30)
        return await report(reporter)

    monkeypatch.setattr(Reporter, "report", late)
    async with bench.agent() as (_, member):
        await until(lambda: member.own.has_synced and member.pods.has_synced)
        await trio.sleep(5)
        assert member.publisher.node is None
        hold_back(member.own, monkeypatch)
        label(bench, disk="ssd")
        bench.schedule("web", node_selector={"disk": "ssd"})
        await until(lambda: bench.phase("web") not in ("", "Pending"), 60)

    assert "Running" == bench.phase("web")


async def test_no_pod_of_the_cluster_is_desired_before_this_nodes_object_is_known(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow, may_follow = Informer._follow, trio.Event()

    async def late(informer: Informer[Any]) -> None:
        if informer._resource == NODES:
            await may_follow.wait()
        await follow(informer)

    monkeypatch.setattr(Informer, "_follow", late)
    bench.schedule("web")
    async with bench.agent() as (node, member):
        await trio.sleep(120)
        assert member.pods.has_synced
        assert [] == list(node.desired)
        may_follow.set()
        await until(lambda: "Running" == bench.phase("web"))


@pytest.mark.parametrize("away", [False, True])
async def test_pods_that_do_not_want_the_node_are_rejected_after_a_common_look_or_after_a_while(
    autojump_clock: MockClock, bench: Bench, away: bool
) -> None:
    async with bench.agent() as (node, member):
        await member.publisher.registered.wait()
        await trio.sleep(5)
        before = sum("get /api/v1/nodes/n" == request for request in bench.api.requests)
        names = [f"web{n}" for n in range(20)]
        if away:
            bench.api.plan("get", *[Hang()] * 9)
        for name in names:
            bench.schedule(name, node_selector={"disk": "ssd"})
        await until(lambda: len(list(node.desired)) == len(names))
        began = trio.current_time()
        await until(lambda: node.admission.rejected["NodeAffinity"] == len(names), 13)
        assert away == (trio.current_time() - began > 9)
        if not away:
            await until(lambda: {bench.phase(name) for name in names} == {"Failed"}, 20)
            # They come by more than one change, and who comes during a look waits for the next.
            assert 1 <= sum("get /api/v1/nodes/n" == request for request in bench.api.requests) - before <= 3


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
