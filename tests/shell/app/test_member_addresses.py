"""A member of a cluster whose network comes late, and whose address changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from shell.memberkit import READING, Bench, until
from trikubelet.app.report import Reporter
from trikubelet.core.containers import NodeFacts
from trikubelet.core.node_addresses import AddressRules
from trikubelet.model import k8s
from trikubelet.model.api import EVENTS, NODES, Selection
from trikubelet.model.api_errors import ObjectMissing
from trikubelet.model.decoding import decode_object
from trikubelet.node.addresses import LOOK_SECONDS, NodeAddresses
from trikubelet.testing.builders import pod

if TYPE_CHECKING:
    from trio.testing import MockClock


@pytest.fixture
def bench() -> Bench:
    return Bench()


def addresses(bench: Bench) -> list[str] | None:
    """The node's, its name with them; None where it is not registered."""
    try:
        node = decode_object(bench.server.get(NODES, "n").raw, k8s.Node)
    except ObjectMissing:
        return None
    return [one.address for one in node.status.addresses] if node.status is not None else []


def host_ip(bench: Bench, name: str) -> str:
    found = bench.pod(name)
    return found.status.host_ip if found is not None and found.status is not None else ""


async def test_a_node_without_an_address_is_registered_once_it_has_one(autojump_clock: MockClock, bench: Bench) -> None:
    bench.network.routes = []
    async with bench.agent():
        await trio.sleep(300)
        assert addresses(bench) is None
        bench.network.routes = ["10.0.0.1"]
        await until(lambda: addresses(bench) is not None, 2)

    assert ["10.0.0.1", "n"] == addresses(bench)


async def test_an_address_that_changes_is_published_and_pods_have_the_new_one(
    autojump_clock: MockClock, bench: Bench
) -> None:
    async with bench.agent():
        bench.schedule("old")
        await until(lambda: bench.is_ready("old"))
        bench.network.routes = ["10.0.0.2"]
        await until(lambda: addresses(bench) == ["10.0.0.2", "n"], LOOK_SECONDS + 1)
        bench.schedule("new", host_network=True)
        await until(lambda: bench.is_ready("new"))
        assert "10.0.0.2" == host_ip(bench, "new")
        await until(lambda: host_ip(bench, "old") == "10.0.0.2", 120)


async def test_a_node_that_has_no_address_after_a_restart_keeps_what_was_published(
    autojump_clock: MockClock, bench: Bench
) -> None:
    async with bench.agent() as (_, member):
        await member.publisher.registered.wait()
    bench.network.routes = []
    async with bench.agent() as (_, member):
        await member.publisher.registered.wait()
        await trio.sleep(600)

    assert ["192.0.2.1", "n"] == addresses(bench)


async def test_pods_of_a_node_that_has_no_address_after_a_restart_keep_theirs(
    autojump_clock: MockClock, bench: Bench
) -> None:
    async with bench.agent():
        bench.schedule("web", host_network=True)
        await until(lambda: bench.is_ready("web"))
    bench.network.routes = []
    told = list[str]()
    bench.server.store.watchers.append(lambda _: told.append(host_ip(bench, "web")))
    async with bench.agent() as (_, member):
        await member.publisher.registered.wait()
        await trio.sleep(600)
        bench.schedule("later")
        await until(lambda: bench.is_ready("later"))

    assert {"192.0.2.1"} == {*told, host_ip(bench, "later")}


async def test_a_container_that_is_to_know_the_nodes_address_waits_for_one(
    autojump_clock: MockClock, bench: Bench
) -> None:
    bench.network.routes = []
    source = k8s.EnvVarSource(field_ref=k8s.ObjectFieldSelector(field_path="status.hostIP"))
    env = (k8s.EnvVar(name="IP", value_from=source),)
    static = pod("static", k8s.Container(name="main", image="app:1", env=env))
    async with bench.agent(static):
        await trio.sleep(60)
        assert [] == bench.running()
        bench.network.routes = ["10.0.0.1"]
        await until(lambda: bench.running() == ["main"], 60)

    events = b"".join(event.raw for event in bench.server.list(EVENTS, Selection()).items)
    assert b"env IP: status.hostIP: the node has no address yet" in events


@pytest.mark.parametrize(
    ("addresses", "awaits", "routes", "cloud_tells"),
    [
        (["10.0.0.1"], False, ["10.0.0.1"], False),
        ([], True, [], False),
        ([], False, ["10.0.0.1"], True),
        ([], False, [], True),  # nothing to wait for: its controller will say
    ],
)
async def test_node_with_addresses_from_its_cloud_waits_for_none(
    autojump_clock: MockClock, bench: Bench, addresses: list[str], awaits: bool, routes: list[str], cloud_tells: bool
) -> None:
    bench.network.routes = routes
    owner = NodeAddresses(bench.network, AddressRules("n"))
    async with bench.agent() as (node, _), trio.open_nursery() as nursery:
        await nursery.start(owner.run)
        reporter = Reporter(
            node, NodeFacts("n"), READING, bench.images, 5, owner, external_cloud=True, cloud_tells=cloud_tells
        )
        report = await reporter.report()
        nursery.cancel_scope.cancel()

    assert (addresses, awaits) == (list(report.addresses), report.awaits_address)
