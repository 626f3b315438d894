"""The node's object: registered, reported when it changes, and registered again when somebody deleted it."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio

from trikubelet.core.node_status import Identity, NodeReport
from trikubelet.kit.outage import Outage
from trikubelet.model import k8s
from trikubelet.model.api import NODES, PatchKind
from trikubelet.model.api_errors import ApiBusy, ApiError, ApiFailure, Forbidden, ObjectExists, ObjectMissing
from trikubelet.model.node_reading import NodeReading
from trikubelet.model.objects import ObjectRef
from trikubelet.node.publisher import NodePublisher, Pace
from trikubelet.pods.node_object import NodeObject
from trikubelet.status.recorder import EventRecorder
from trikubelet.testing.apiserver.server import ApiServer
from trikubelet.testing.memory_api import Fail, LoseAnswer, MemoryApi
from trikubelet.testing.memory_host import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trio.testing import MockClock

    from trikubelet.model.api import Item

READING = NodeReading("w1", 8 * 1024**3, 4, architecture="amd64")


class SlowAnswers(MemoryApi):
    """A client whose writes are done at once and answered two seconds later."""

    async def create(self, *words: Any, **more: Any) -> Item:
        item = await super().create(*words, **more)
        await trio.sleep(2)
        return item

    async def patch(self, *words: Any, **more: Any) -> Item:
        item = await super().patch(*words, **more)
        await trio.sleep(2)
        return item


class World:
    """One node's publisher on a server in memory."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = ApiServer(self.clock.now_ns)
        self.api = MemoryApi(self.server)
        self.events = EventRecorder(self.clock, 100)
        self.resets = 0
        self.outage = Outage("API server")
        self.report_seconds = 0.0
        self.report = NodeReport(
            hostname="w1",
            addresses=("10.0.0.1",),
            reading=READING,
            capacity={"cpu": 4000, "memory": 8 * 1024**3, "pods": 110},
            allocatable={"cpu": 4000, "memory": 8 * 1024**3, "pods": 110},
            version="v1.36.0",
        )

    def publisher(self, pace: Pace | None = None, node: NodeObject | None = None) -> NodePublisher:
        return NodePublisher(
            api=self.api,
            identity=Identity("w1", "w1", "amd64", labels={"zone": "a"}),
            report=self._reported,
            pace=pace or Pace(compute_seconds=10.0, report_seconds=300.0),
            clock=self.clock,
            events=self.events,
            this_node=ObjectRef("Node", "w1", uid="w1"),
            node=node or NodeObject(),
            outage=self.outage,
            reset=self._reset,
            chance=random.Random(1),
        )

    def _reset(self) -> None:
        self.resets += 1

    async def _reported(self) -> NodeReport:
        await trio.sleep(self.report_seconds)
        return self.report

    def node(self) -> k8s.Node:
        return msgspec.json.decode(self.server.get(NODES, "w1").raw, type=k8s.Node)

    def condition(self, type_: str = "Ready") -> k8s.NodeCondition:
        status = self.node().status
        assert status is not None
        return next(one for one in status.conditions if one.type == type_)

    def count(self, verb: str) -> int:
        return sum(request.startswith(verb) for request in self.api.requests)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
async def publisher(world: World) -> AsyncIterator[NodePublisher]:
    publisher = world.publisher()
    async with trio.open_nursery() as nursery:
        await nursery.start(publisher.run)
        yield publisher
        nursery.cancel_scope.cancel()


async def test_a_node_is_registered_ready_at_once(
    autojump_clock: MockClock, world: World, publisher: NodePublisher
) -> None:
    with trio.fail_after(1):
        await publisher.registered.wait()

    assert "True" == world.condition().status
    assert "a" == world.node().metadata.labels["zone"]
    assert publisher.uid() == world.node().metadata.uid


async def test_a_status_that_stays_is_told_every_five_minutes_and_no_more(
    autojump_clock: MockClock, world: World, publisher: NodePublisher
) -> None:
    await publisher.registered.wait()
    publisher.seen(world.node())
    await trio.sleep(3600)

    assert 1 == world.count("create")
    assert 11 <= world.count("patch") <= 12


@pytest.mark.parametrize(("keeps", "amount"), [(True, "4"), (False, "0")])
async def test_extended_resources_of_an_adopted_node_stay_if_devices_were_recorded_before(
    autojump_clock: MockClock, world: World, keeps: bool, amount: str
) -> None:
    world.report = replace(world.report, keeps_extended=keeps)
    advertised = k8s.NodeStatus(capacity={"example.com/gpu": "4"})
    there = k8s.Node(metadata=k8s.ObjectMeta(name="w1"), status=advertised)
    await world.api.create(NODES, there)
    async with trio.open_nursery() as nursery:
        publisher = world.publisher()
        await nursery.start(publisher.run)
        await publisher.registered.wait()
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    status = world.node().status
    assert status is not None
    assert amount == status.capacity["example.com/gpu"]


async def test_change_is_reported_at_once_on_request(
    autojump_clock: MockClock, world: World, publisher: NodePublisher
) -> None:
    await trio.sleep(1)
    world.report = replace(world.report, problems=("container runtime is down",))
    publisher.wake()
    await trio.sleep(0.1)
    assert ("False", "container runtime is down") == (world.condition().status, world.condition().message)

    world.report = replace(world.report, problems=())
    await trio.sleep(10.4)
    assert "True" == world.condition().status
    assert [
        ("Starting", "Starting kubelet."),
        ("NodeHasSufficientMemory", "Node w1 status is now: NodeHasSufficientMemory"),
        ("NodeHasNoDiskPressure", "Node w1 status is now: NodeHasNoDiskPressure"),
        ("NodeHasSufficientPID", "Node w1 status is now: NodeHasSufficientPID"),
        ("NodeNotReady", "Node w1 status is now: NodeNotReady"),
        ("NodeReady", "Node w1 status is now: NodeReady"),
    ] == [(event.reason, event.message) for event in world.events.all()]
    assert 2 == next(event.count for event in world.events.all() if event.reason == "NodeReady")  # also as a new node


async def test_a_cordon_is_an_event_and_so_is_its_end(
    autojump_clock: MockClock, world: World, publisher: NodePublisher
) -> None:
    def said() -> list[tuple[str, str]]:
        return [(event.reason, event.message) for event in world.events.all() if "Schedulable" in event.reason]

    await trio.sleep(1)
    for cordoned in (True, False):
        await trio.sleep(60)
        world.server.patch(NODES, "w1", {"spec": {"unschedulable": cordoned}}, kind=PatchKind.STRATEGIC)
        publisher.seen(world.node())
        await trio.sleep(11)
        assert f"Node{'Not' * cordoned}Schedulable" == said()[-1][0]

    assert [
        ("NodeNotSchedulable", "Node w1 status is now: NodeNotSchedulable"),
        ("NodeSchedulable", "Node w1 status is now: NodeSchedulable"),
    ] == said()


async def test_a_node_found_cordoned_is_reported(autojump_clock: MockClock, world: World) -> None:
    world.server.create(NODES, k8s.Node(metadata=k8s.ObjectMeta(name="w1"), spec=k8s.NodeSpec(unschedulable=True)))
    async with trio.open_nursery() as nursery:
        await nursery.start(world.publisher().run)
        await trio.sleep(60)
        nursery.cancel_scope.cancel()

    assert 1 == [event.reason for event in world.events.all()].count("NodeNotSchedulable")


async def test_a_boot_is_reported_once_its_id_is_and_the_start_of_the_agent_alone_is_none(
    autojump_clock: MockClock, world: World
) -> None:
    for boot_id in ("one", "one", "two", "two"):
        world.report = replace(world.report, reading=replace(READING, boot_id=boot_id))
        world.api.plan("patch", Fail(ApiFailure("etcd is away")))
        async with trio.open_nursery() as nursery:
            await nursery.start(world.publisher().run)
            await trio.sleep(400)
            nursery.cancel_scope.cancel()

    told = [(event.type, event.message, event.count) for event in world.events.all() if event.reason == "Rebooted"]
    assert [("Warning", "Node w1 has been rebooted, boot id: two", 1)] == told


async def test_a_restart_shows_in_no_transition(autojump_clock: MockClock, world: World) -> None:
    for _ in range(2):
        async with trio.open_nursery() as nursery:
            await nursery.start(world.publisher().run)
            await trio.sleep(100)
            before = world.condition()
            nursery.cancel_scope.cancel()
    async with trio.open_nursery() as nursery:
        await nursery.start(world.publisher().run)
        await trio.sleep(400)
        nursery.cancel_scope.cancel()

    assert before.last_transition_time == world.condition().last_transition_time
    assert before.last_heartbeat_time < world.condition().last_heartbeat_time
    assert 1 == world.count("create")


async def test_startup_of_a_new_node_is_measured_once(autojump_clock: MockClock, world: World) -> None:
    second, began_ns = 10**9, world.clock.now_ns()
    world.report = replace(world.report, problems=("no network",), reading=replace(READING, booted_ns=5))
    async with trio.open_nursery() as nursery:
        publisher = world.publisher()
        await nursery.start(publisher.run)
        await publisher.registered.wait()
        await trio.sleep(30)
        assert 0 == publisher.startup.ready_ns
        world.report = replace(world.report, problems=())
        publisher.wake()
        await trio.sleep(1)
        noted = (publisher.startup.booted_ns, publisher.startup.registered_ns, publisher.startup.ready_ns)
        await trio.sleep(600)
        assert noted == (publisher.startup.booted_ns, publisher.startup.registered_ns, publisher.startup.ready_ns)
        nursery.cancel_scope.cancel()

    assert 5 == publisher.startup.booted_ns
    assert began_ns <= publisher.startup.tried_ns <= publisher.startup.registered_ns < began_ns + second
    assert 30 <= (publisher.startup.ready_ns - began_ns) // second <= 31


async def test_startup_of_a_node_that_was_registered_before_is_not_measured(
    autojump_clock: MockClock, world: World
) -> None:
    for _ in range(2):
        async with trio.open_nursery() as nursery:
            publisher = world.publisher()
            await nursery.start(publisher.run)
            await trio.sleep(100)
            nursery.cancel_scope.cancel()

    assert (0, 0, 0) == (publisher.startup.tried_ns, publisher.startup.registered_ns, publisher.startup.ready_ns)


async def test_a_node_that_was_deleted_is_registered_again(
    autojump_clock: MockClock, world: World, publisher: NodePublisher
) -> None:
    await trio.sleep(1)
    first = publisher.uid()
    world.server.delete(NODES, "w1", "", None, "")
    publisher.seen(None)
    await trio.sleep(1)

    assert first != publisher.uid() == world.node().metadata.uid


def test_the_node_is_as_the_agent_describes_it_while_the_cluster_has_none(world: World) -> None:
    described, given = k8s.Node(metadata=k8s.ObjectMeta(name="w1")), k8s.Node(metadata=k8s.ObjectMeta(name="given"))
    one = NodeObject(described)
    publisher = world.publisher(node=one)
    assert (described, None) == (one.newest, publisher.node)

    one.received = given
    assert (given, given) == (one.newest, publisher.node)
    publisher.seen(None)
    assert (described, None) == (one.newest, publisher.node)


async def test_node_deleted_or_created_meanwhile_is_no_refusal(
    autojump_clock: MockClock, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.api.plan("create", Fail(ObjectExists('nodes "w1" already exists')))
    async with trio.open_nursery() as nursery:
        publisher = world.publisher()
        await nursery.start(publisher.run)
        await publisher.registered.wait()
        for _ in range(3):
            await trio.sleep(60)
            world.server.delete(NODES, "w1")
            await trio.sleep(60)
            assert publisher.uid() == world.node().metadata.uid
        nursery.cancel_scope.cancel()

    assert [] == [line for line in caplog.messages if "refuses" in line]


async def test_unreported_deletion_is_noticed_with_the_next_report(
    autojump_clock: MockClock, world: World, publisher: NodePublisher
) -> None:
    await trio.sleep(1)
    publisher.seen(world.node())
    world.server.delete(NODES, "w1", "", None, "")
    await trio.sleep(310)

    assert publisher.uid() == world.node().metadata.uid


async def test_a_node_no_informer_ever_saw_is_missed_within_a_pass(
    autojump_clock: MockClock, world: World, publisher: NodePublisher
) -> None:
    await trio.sleep(1)
    world.server.delete(NODES, "w1", "", None, "")
    await trio.sleep(11)

    assert publisher.uid() == world.node().metadata.uid


async def test_what_others_wrote_stays(autojump_clock: MockClock, world: World, publisher: NodePublisher) -> None:
    await trio.sleep(1)
    theirs = {"type": "NetworkUnavailable", "status": "False", "reason": "RouteCreated"}
    body = {"status": {"conditions": [theirs]}}
    world.server.patch(NODES, "w1", body, kind=PatchKind.STRATEGIC, subresource="status")
    world.server.patch(NODES, "w1", {"spec": {"unschedulable": True}}, kind=PatchKind.STRATEGIC)
    world.report = replace(world.report, problems=("x",))
    await trio.sleep(11)

    assert "RouteCreated" == world.condition("NetworkUnavailable").reason
    assert "False" == world.condition().status
    spec = world.node().spec
    assert spec is not None
    assert spec.unschedulable


async def test_an_agent_told_not_to_register_waits_for_the_node(autojump_clock: MockClock, world: World) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(world.publisher(Pace(registers=False)).run)
        await trio.sleep(60)
        with pytest.raises(ObjectMissing):
            world.node()
        world.server.create(NODES, k8s.Node(metadata=k8s.ObjectMeta(name="w1", labels={"mine": "x"})))
        await trio.sleep(11)
        nursery.cancel_scope.cancel()

    assert "True" == world.condition().status
    assert {"mine": "x"} == world.node().metadata.labels


async def test_a_node_that_is_there_gets_its_labels_mended(autojump_clock: MockClock, world: World) -> None:
    world.server.create(NODES, k8s.Node(metadata=k8s.ObjectMeta(name="w1", labels={"mine": "x"})))
    async with trio.open_nursery() as nursery:
        await nursery.start(world.publisher().run)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()

    labels = world.node().metadata.labels
    assert ("x", "amd64") == (labels["mine"], labels["kubernetes.io/arch"])
    assert "True" == world.condition().status


@pytest.mark.parametrize(("expected", "registers"), [("0", True), ("4", False)])
async def test_devices_advertised_while_the_agent_lives_stay_and_only_a_registration_takes_them_back(
    autojump_clock: MockClock, world: World, expected: str, registers: bool
) -> None:
    def amounts() -> set[str]:
        status = world.node().status
        assert status is not None
        return {status.capacity["example.com/dongle"], status.allocatable["example.com/dongle"]}

    async with trio.open_nursery() as nursery:
        await nursery.start(world.publisher().run)
        await trio.sleep(5)
        body = {"status": {"capacity": {"example.com/dongle": "4"}}}
        world.server.patch(NODES, "w1", body, kind=PatchKind.STRATEGIC, subresource="status")
        await trio.sleep(400)
        nursery.cancel_scope.cancel()
    assert {"4"} == amounts()

    async with trio.open_nursery() as nursery:
        await nursery.start(world.publisher(Pace(registers=registers)).run)
        await trio.sleep(30)
        nursery.cancel_scope.cancel()
    assert {expected} == amounts()


@pytest.mark.parametrize("outcome", [LoseAnswer(), Fail(ApiFailure("etcd is away"))])
async def test_a_registration_that_went_wrong_is_tried_again_soon(
    autojump_clock: MockClock, world: World, outcome: LoseAnswer | Fail
) -> None:
    world.api.plan("create", outcome)
    async with trio.open_nursery() as nursery:
        publisher = world.publisher()
        await nursery.start(publisher.run)
        with trio.fail_after(1):
            await publisher.registered.wait()
        nursery.cancel_scope.cancel()

    assert publisher.uid() == world.node().metadata.uid


async def test_an_outage_is_waited_for_with_growing_pauses(
    autojump_clock: MockClock, world: World, publisher: NodePublisher
) -> None:
    await trio.sleep(1)
    world.api.link.down()
    world.report = replace(world.report, problems=("x",))
    world.api.requests.clear()
    await trio.sleep(600)
    assert 80 <= len(world.api.requests) <= 100
    assert world.resets >= 10

    world.api.link.up()
    await trio.sleep(8)
    assert "False" == world.condition().status


async def test_a_server_that_answers_with_errors_costs_no_connection(
    autojump_clock: MockClock, world: World, publisher: NodePublisher
) -> None:
    await publisher.registered.wait()
    world.api.plan("patch", *[Fail(ApiFailure("a webhook is away"))] * 1000)
    world.report = replace(world.report, problems=("x",))
    await trio.sleep(600)

    assert 0 == world.resets


async def test_a_status_without_news_says_nothing_of_a_server_that_is_away(
    autojump_clock: MockClock, world: World, publisher: NodePublisher
) -> None:
    await publisher.registered.wait()
    publisher.seen(world.node())
    world.api.link.down()
    world.outage.failed("renewing the node's lease", ApiFailure("no route"))  # as another part of the agent found
    since = world.outage.since
    world.api.requests.clear()
    await trio.sleep(100)

    assert not world.api.requests
    assert since == world.outage.since is not None


async def test_a_busy_server_names_the_pause_within_bounds(autojump_clock: MockClock, world: World) -> None:
    world.api.plan("get", Fail(ApiBusy("slow down", after=20.0)), Fail(ApiBusy("maintenance", after=3600.0)))
    async with trio.open_nursery() as nursery:
        publisher = world.publisher()
        await nursery.start(publisher.run)
        await trio.sleep(49.9)
        assert not publisher.registered.is_set()
        with trio.fail_after(1):
            await publisher.registered.wait()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("expected", "error"),
    [(10, ApiBusy("slow down", after=30.0)), (48, ApiFailure("etcd is away"))],
    ids=["429", "500"],
)
async def test_wake_ups_cut_no_pause_that_a_failing_server_needs(
    autojump_clock: MockClock, world: World, publisher: NodePublisher, expected: int, error: ApiError
) -> None:
    await publisher.registered.wait()
    world.api.plan("patch", *[Fail(error)] * 1000)
    world.api.requests.clear()
    for second in range(300):
        world.report = replace(world.report, problems=(str(second),))
        publisher.wake()
        await trio.sleep(1)

    assert expected == world.count("patch")


@pytest.mark.parametrize(
    ("there", "verb", "error"),
    [
        (False, "create", ObjectExists('nodes "w1" already exists')),
        (True, "patch", ObjectMissing('nodes "w1" not found')),
        (True, "patch", Forbidden("not allowed to modify it")),
    ],
)
async def test_a_server_that_contradicts_itself_is_not_flooded(
    there: bool,
    verb: str,
    error: ApiError,
    autojump_clock: MockClock,
    world: World,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with trio.open_nursery() as nursery:
        publisher = world.publisher()
        if there:
            await nursery.start(publisher.run)
            await publisher.registered.wait()
        world.api.plan(verb, *[Fail(error)] * 1000)
        world.report = replace(world.report, problems=("x",))
        if not there:
            await nursery.start(publisher.run)
        world.api.requests.clear()
        await trio.sleep(600)

        assert 80 <= world.count(verb) <= 100
        said = [record.getMessage() for record in caplog.records]
        expected = f"The API server refuses publishing the node's status: {error}; retrying until it accepts"
        assert (10, 0) == (said.count(expected), world.resets)
        world.api.calm()
        await trio.sleep(8)
        nursery.cancel_scope.cancel()

    assert "False" == world.condition().status


async def test_an_older_node_counts_only_where_the_informer_was_set_back(
    autojump_clock: MockClock, world: World, publisher: NodePublisher
) -> None:
    await publisher.registered.wait()
    older = world.node()
    world.server.patch(NODES, "w1", {"metadata": {"labels": {"zone": "b"}}}, kind=PatchKind.MERGE)
    newer = world.node()
    publisher.seen(newer)
    publisher.seen(older)
    assert newer == publisher.node
    publisher.seen(older, is_set_back=True)
    assert older == publisher.node


async def test_before_the_node_is_taken_up_the_newest_that_was_looked_up_or_watched_counts(world: World) -> None:
    world.server.create(NODES, {"metadata": {"name": "w1"}})
    older = world.node()
    world.server.patch(NODES, "w1", {"metadata": {"labels": {"zone": "b"}}}, kind=PatchKind.MERGE)
    newer, node = world.node(), NodeObject()
    publisher = world.publisher(node=node)

    publisher.seen(newer)
    publisher.found(older, None)  # it was asked for before the watch brought the newer one
    assert (newer, None) == (node.watched, node.looked_up)
    publisher.seen(older, is_set_back=True)
    publisher.found(newer, older)
    publisher.seen(older)
    assert newer == node.looked_up
    publisher.seen(older, is_set_back=True)
    assert (older, None) == (node.watched, node.looked_up)


async def test_an_answer_that_comes_after_newer_news_does_not_hide_them(
    autojump_clock: MockClock, world: World, publisher: NodePublisher
) -> None:
    await trio.sleep(1)
    told = world.node()
    unknown = {"type": "Ready", "status": "Unknown"}
    world.server.patch(
        NODES, "w1", {"status": {"conditions": [unknown]}}, kind=PatchKind.STRATEGIC, subresource="status"
    )
    publisher.seen(world.node())
    publisher.seen(told)  # a watch that repeats itself
    await trio.sleep(11)

    assert "True" == world.condition().status


async def test_the_informers_list_counts_though_it_is_older_once_the_server_was_set_back(
    autojump_clock: MockClock, world: World, publisher: NodePublisher
) -> None:
    await publisher.registered.wait()
    older = world.node()
    world.server.patch(NODES, "w1", {"metadata": {"labels": {"later": "yes"}}}, kind=PatchKind.STRATEGIC)
    publisher.seen(world.node())
    publisher.seen(older, is_set_back=True)

    assert publisher.node is not None
    assert older.metadata.labels == publisher.node.metadata.labels


async def test_an_answer_older_than_what_was_known_shows_that_the_server_was_set_back(
    autojump_clock: MockClock, world: World, publisher: NodePublisher
) -> None:
    await publisher.registered.wait()
    store = world.server.store
    version = store.version
    for n in range(5):
        world.server.patch(NODES, "w1", {"metadata": {"labels": {"later": f"{n}"}}}, kind=PatchKind.STRATEGIC)
    publisher.seen(world.node())
    store.version = version
    world.server.patch(NODES, "w1", {"metadata": {"labels": {"later": "no"}}}, kind=PatchKind.STRATEGIC)
    world.report = replace(world.report, problems=("x",))
    publisher.wake()
    await trio.sleep(1)

    assert publisher.node is not None
    assert "no" == publisher.node.metadata.labels["later"]


@pytest.mark.parametrize("is_received", [True, False])
async def test_what_others_asked_for_counts_though_it_is_older_than_what_was_known_when_they_asked(
    autojump_clock: MockClock, world: World, is_received: bool
) -> None:
    set_back: list[float] = []
    kept, publisher = NodeObject(), world.publisher()
    async with trio.open_nursery() as nursery:
        await nursery.start(publisher.run)
        await publisher.registered.wait()
        nursery.cancel_scope.cancel()
    older = world.node()
    world.server.patch(NODES, "w1", {"metadata": {"labels": {"later": "yes"}}}, kind=PatchKind.STRATEGIC)
    newer = world.node()
    publisher = world.publisher(node=kept)
    kept.received = newer if is_received else None
    kept.watched = newer
    with world.outage.listening(lambda: None, set_back=lambda: set_back.append(trio.current_time())):
        publisher.found(older, None)
        assert (newer, 0) == (kept.newest, len(set_back))
        publisher.found(older, newer)

    assert (older, 1) == (kept.newest, len(set_back))


async def test_what_others_asked_for_does_not_hide_what_a_server_that_was_set_back_answered_later(
    autojump_clock: MockClock, world: World, publisher: NodePublisher
) -> None:
    await publisher.registered.wait()
    nodes = []
    for n in range(3):
        world.server.patch(NODES, "w1", {"metadata": {"labels": {"n": f"{n}"}}}, kind=PatchKind.STRATEGIC)
        nodes.append(world.node())
    found, answered, before = nodes
    publisher.seen(answered, is_set_back=True)
    publisher.found(found, before)

    assert answered == publisher.node


async def test_news_that_come_while_a_patch_is_under_way_count(autojump_clock: MockClock, world: World) -> None:
    slow = SlowAnswers(world.server)
    world.api = slow
    async with trio.open_nursery() as nursery:
        publisher = world.publisher()
        await nursery.start(publisher.run)
        await publisher.registered.wait()
        world.report = replace(world.report, problems=("x",))
        publisher.wake()
        await trio.sleep(1)  # written, and not answered yet
        unknown = {"type": "Ready", "status": "Unknown"}
        body = {"status": {"conditions": [unknown]}}
        world.server.patch(NODES, "w1", body, kind=PatchKind.STRATEGIC, subresource="status")
        publisher.seen(world.node())
        await trio.sleep(20)
        nursery.cancel_scope.cancel()

    assert "False" == world.condition().status


async def test_news_that_come_while_a_registration_is_under_way_count(autojump_clock: MockClock, world: World) -> None:
    world.api = SlowAnswers(world.server)
    async with trio.open_nursery() as nursery:
        publisher = world.publisher()
        await nursery.start(publisher.run)
        await trio.sleep(1)  # made, and not answered yet
        body = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
        world.server.patch(NODES, "w1", body, kind=PatchKind.STRATEGIC, subresource="status")
        publisher.seen(world.node())
        await trio.sleep(20)
        nursery.cancel_scope.cancel()

    assert "True" == world.condition().status


async def test_a_report_that_takes_its_time_is_reported_and_blamed_on_no_server(
    autojump_clock: MockClock, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.report_seconds = 11.0
    async with trio.open_nursery() as nursery:
        await nursery.start(world.publisher().run)
        await trio.sleep(12)
        nursery.cancel_scope.cancel()

    assert "True" == world.condition().status
    assert [] == [record.getMessage() for record in caplog.records if "is unreachable" in record.getMessage()]
