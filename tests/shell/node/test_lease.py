"""The node's lease: renewed on time, owned by the node, and through whatever the server does."""

from __future__ import annotations

import copy
import logging
import random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio

from trikubelet.core.timestamps import parse_rfc3339
from trikubelet.kit.outage import Outage
from trikubelet.model import k8s
from trikubelet.model.api import LEASES, Item
from trikubelet.model.api_errors import ApiFailure, Conflict, Forbidden, OutOfFiles, Unauthorized
from trikubelet.node.lease import NAMESPACE, NodeLease
from trikubelet.testing.apiserver.server import ApiServer
from trikubelet.testing.memory_api import Fail, Hang, LoseAnswer, MemoryApi
from trikubelet.testing.memory_host import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trio.testing import MockClock


class World:
    """One node's lease task on a server in memory."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = ApiServer(self.clock.now_ns)
        self.api = MemoryApi(self.server)
        self.uid = "u-1"
        self.resets = 0
        self.outage = Outage("API server")
        self.lease = NodeLease(
            self.api,
            "w1",
            lambda: self.uid,
            40,
            self.clock,
            self.outage,
            self._reset,
            random.Random(1),
        )

    def _reset(self) -> None:
        self.resets += 1

    def held(self) -> k8s.Lease:
        return msgspec.json.decode(self.server.get(LEASES, "w1", NAMESPACE).raw, type=k8s.Lease)

    def age_seconds(self) -> float:
        spec = self.held().spec
        assert spec is not None
        return (self.clock.now_ns() - parse_rfc3339(spec.renew_time)) / 1e9


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    async with trio.open_nursery() as nursery:
        await nursery.start(world.lease.run)
        yield world
        nursery.cancel_scope.cancel()


async def test_a_lease_is_made_and_renewed_every_quarter_of_its_duration(
    autojump_clock: MockClock, world: World
) -> None:
    await trio.sleep(1)
    spec = world.held().spec
    assert spec is not None
    assert ("w1", 40) == (spec.holder_identity, spec.lease_duration_seconds)

    ages = []
    for _ in range(60):
        await trio.sleep(7)
        ages.append(world.age_seconds())
    assert max(ages) <= 10 * 1.04
    assert {"create", "get", "replace"} == {request.split()[0] for request in world.api.requests}
    assert 1 == sum(request.startswith("get") for request in world.api.requests)


async def test_a_lease_is_made_when_the_node_is_there_that_it_is_to_go_with(autojump_clock: MockClock) -> None:
    world = World()
    world.uid = ""
    async with trio.open_nursery() as nursery:
        await nursery.start(world.lease.run)
        await trio.sleep(500)
        assert {"get"} == {request.split()[0] for request in world.api.requests}
        assert 500 / 7.3 <= len(world.api.requests) <= 100

        world.uid = "u-1"
        await trio.sleep(7.3)
        assert [("Node", "w1", "u-1")] == owners(world)
        assert world.age_seconds() <= 7.3
        nursery.cancel_scope.cancel()


async def test_a_lease_that_is_there_is_renewed_before_the_node_is_and_gets_its_owner_with_it(
    autojump_clock: MockClock,
) -> None:
    world = World()
    world.uid = ""
    world.server.create(LEASES, {"metadata": {"name": "w1"}}, NAMESPACE)
    async with trio.open_nursery() as nursery:
        await nursery.start(world.lease.run)
        await trio.sleep(100)
        assert [] == owners(world)
        assert world.age_seconds() <= 10 * 1.04

        world.uid = "u-1"
        await trio.sleep(11)
        assert [("Node", "w1", "u-1")] == owners(world)
        nursery.cancel_scope.cancel()


async def test_a_lease_keeps_the_owner_it_has(autojump_clock: MockClock, world: World) -> None:
    await trio.sleep(1)
    world.uid = "u-2"
    await trio.sleep(11)

    assert [("Node", "w1", "u-1")] == owners(world)
    assert world.age_seconds() <= 10 * 1.04


def owners(world: World) -> list[tuple[str, str, str]]:
    """With what the lease goes."""
    return [(one.kind, one.name, one.uid) for one in world.held().metadata.owner_references]


async def test_another_writer_is_a_conflict_and_the_newest_is_renewed_at_once(
    autojump_clock: MockClock, world: World, nursery: Any
) -> None:
    calm = World()
    await nursery.start(calm.lease.run)
    await trio.sleep(1)
    world.server.replace(LEASES, "w1", msgspec.structs.replace(world.held()), NAMESPACE)
    world.api.plan("replace", Fail(Conflict("the object has been modified", "Conflict")))
    world.api.requests.clear()
    await trio.sleep(10)

    assert ["replace", "get", "replace"] == [request.split()[0] for request in world.api.requests]
    assert calm.age_seconds() == world.age_seconds() < 1
    assert 0 == world.resets


async def test_a_second_agent_of_the_same_name_is_told_of_as_such_and_rarely(
    autojump_clock: MockClock, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    clock, api = VirtualClock(), MemoryApi(world.server)
    rival = NodeLease(api, "w1", lambda: "u-1", 40, clock, Outage("API server"), world._reset, random.Random(2))
    async with trio.open_nursery() as nursery:
        await trio.sleep(3)
        nursery.start_soon(rival.run)
        await trio.sleep(590)
        nursery.cancel_scope.cancel()

    lines = [record.getMessage() for record in caplog.records]
    assert 2 == len(lines)  # one of each agent
    assert all(
        line.startswith("Another agent seems to use this node's name, w1: w1 renewed its lease") for line in lines
    )
    assert 0 == world.resets


async def test_late_answers_and_edits_of_the_lease_are_not_another_agent(
    autojump_clock: MockClock, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(20):
        await trio.sleep(11)
        held = world.held()
        metadata = msgspec.structs.replace(held.metadata, annotations={"note": str(trio.current_time())})
        world.server.replace(LEASES, "w1", msgspec.structs.replace(held, metadata=metadata), NAMESPACE)
        world.api.plan("replace", LoseAnswer(), Fail(Conflict("the object has been modified", "Conflict")))
        await trio.sleep(11)

    assert [] == [record.getMessage() for record in caplog.records if "Another agent" in record.getMessage()]
    assert world.age_seconds() <= 10 * 1.04


async def test_a_restored_backup_is_no_other_agent(
    autojump_clock: MockClock, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    store = world.server.store
    await trio.sleep(5)
    backup = store.version, copy.deepcopy(store._objects)
    await trio.sleep(600)
    store.version, store._objects = backup
    store.forget()
    await trio.sleep(11)

    (said,) = caplog.messages
    assert "API server was set back to an older state: lease w1" in said
    assert world.age_seconds() <= 10 * 1.04


async def test_conflicts_that_do_not_end_are_said(
    autojump_clock: MockClock, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await trio.sleep(1)
    world.api.plan("replace", *[Fail(Conflict("the object has been modified", "Conflict"))] * 100)
    await trio.sleep(50)

    expected = "The API server refuses renewing the node's lease: the object has been modified"
    assert [expected] == [record.getMessage().partition(";")[0] for record in caplog.records]


async def test_a_want_of_open_files_is_not_told_as_the_server_s_absence(
    autojump_clock: MockClock, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await trio.sleep(1)
    problem = OutOfFiles("no connection to https://s: Too many open files")
    world.api.plan("replace", Fail(problem))
    world.api.plan("get", *[Fail(problem)] * 4)
    await trio.sleep(30)

    expected = f"Cannot reach API server because of a local failure: renewing the node's lease: {problem}"
    assert [expected] == [record.getMessage() for record in caplog.records]
    assert world.age_seconds() <= 10 * 1.04


async def test_a_deleted_lease_is_made_again_without_a_word(
    autojump_clock: MockClock, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await trio.sleep(1)
    world.server.delete(LEASES, "w1", NAMESPACE, None, "")
    await trio.sleep(11)

    assert world.age_seconds() <= 10 * 1.04
    assert [] == caplog.messages


async def test_a_lost_answer_does_not_stop_the_renewals(autojump_clock: MockClock, world: World) -> None:
    await trio.sleep(1)
    world.api.plan("replace", LoseAnswer())
    await trio.sleep(11)

    assert world.age_seconds() <= 10 * 1.04


async def test_a_request_that_hangs_is_given_up_before_the_lease_ends(autojump_clock: MockClock, world: World) -> None:
    await trio.sleep(1)
    world.api.plan("replace", Hang())
    await trio.sleep(25)

    assert world.age_seconds() <= 10 * 1.04


async def test_repeated_failures_make_the_connections_again_and_stay_spaced(
    autojump_clock: MockClock, world: World
) -> None:
    await trio.sleep(1)
    world.api.requests.clear()
    world.api.plan("replace", Fail(ApiFailure("etcd is away")))
    world.api.plan("get", *[Fail(ApiFailure("etcd is away")) for _ in range(100)])
    await trio.sleep(60)

    # 0.2, 0.4, … 6.4 and then 7 s apart.
    assert 10 <= len(world.api.requests) <= 15
    assert 3 <= world.resets <= 5


@pytest.mark.parametrize("raw", [b"{}", b'{"metadata":{"name":"w1"},"spec":7}', b'{"metadata":{"name":"\xff"}}'])
@pytest.mark.parametrize("verb", ["get", "replace"])
async def test_undecodable_answer_is_a_failure_like_others(
    verb: str, raw: bytes, autojump_clock: MockClock, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await trio.sleep(1)

    async def odd(*_: object, **__: object) -> Item:
        await trio.lowlevel.checkpoint()
        return Item(NAMESPACE, "w1", "u", "9", raw)

    with monkeypatch.context() as patch:
        patch.setattr(world.api, verb, odd)
        world.api.plan("replace", Fail(Conflict("the object has been modified", "Conflict")))
        await trio.sleep(60)
    await trio.sleep(20)

    assert world.age_seconds() <= 10 * 1.04


@pytest.mark.parametrize("renew_time", ["yesterday", "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999-12:00"])
async def test_invalid_time_is_replaced(renew_time: str, autojump_clock: MockClock, world: World) -> None:
    await trio.sleep(1)
    held = world.held()
    assert held.spec is not None
    spec = msgspec.structs.replace(held.spec, renew_time=renew_time)
    world.server.replace(LEASES, "w1", msgspec.structs.replace(held, spec=spec), NAMESPACE)
    await trio.sleep(11)

    assert world.age_seconds() <= 10 * 1.04


async def test_a_no_is_no_outage(autojump_clock: MockClock, world: World, caplog: pytest.LogCaptureFixture) -> None:
    await trio.sleep(1)
    world.api.plan("replace", *[Fail(Forbidden("not yours"))] * 100)
    await trio.sleep(120)

    expected = "The API server refuses renewing the node's lease: not yours; retrying until it accepts"
    assert [expected] * 2 == [record.getMessage() for record in caplog.records]
    assert 0 == world.resets


async def test_a_server_that_does_not_know_us_is_no_outage_and_asked_rarely(
    autojump_clock: MockClock, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await trio.sleep(1)
    world.api.requests.clear()
    world.api.plan("get", *[Fail(Unauthorized("x"))] * 100)
    world.api.plan("replace", Fail(Unauthorized("x")))
    await trio.sleep(120)

    assert [] == caplog.messages  # whoever holds the credentials tells
    assert 20 <= len(world.api.requests) <= 25
    assert 0 == world.resets


async def test_an_outage_is_said_once_a_minute(
    autojump_clock: MockClock, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await trio.sleep(1)
    world.api.link.down()
    await trio.sleep(600)
    lines = [record.getMessage() for record in caplog.records if "is unreachable" in record.getMessage()]
    assert 9 <= len(lines) <= 11

    world.api.link.up()
    await trio.sleep(8)
    assert world.age_seconds() <= 10 * 1.04
    assert [record.getMessage() for record in caplog.records][-1].startswith("API server is back after ")


async def test_a_clock_that_was_set_back_brings_later_renewals_all_the_same(
    autojump_clock: MockClock, world: World
) -> None:
    renewed: list[int] = []
    for jump_seconds in (0, 7200, -7200, -3600, 3600):
        world.clock.jump(jump_seconds)
        for _ in range(3):
            await trio.sleep(11)
            spec = world.held().spec
            assert spec is not None
            renewed.append(parse_rfc3339(spec.renew_time))

    assert sorted(set(renewed)) == renewed
    await trio.sleep(7200)
    assert abs(world.age_seconds()) <= 10 * 1.04


async def test_a_lease_older_than_the_last_shows_that_the_server_was_set_back_and_no_rival(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    world, evidence = World(), list[float]()
    store = world.server.store
    with world.outage.listening(lambda: None, set_back=lambda: evidence.append(trio.current_time())):
        async with trio.open_nursery() as nursery:
            await nursery.start(world.lease.run)
            await trio.sleep(1)
            backup = store.version, copy.deepcopy(store._objects)
            await trio.sleep(600)
            assert [] == evidence
            store.version, store._objects = backup
            store.forget()
            await trio.sleep(600)
            nursery.cancel_scope.cancel()

    assert 1 == len(evidence)
    assert evidence[0] < 612
    assert ["API server was set back to an older state"] == [message.split(":")[0] for message in caplog.messages]
