"""Certificates asked for, waited for, refused, and rotated in time."""

from __future__ import annotations

import itertools
import random
import threading
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from shell.kube.authoritykit import Authority
from shell.signingkit import LIFE_SECONDS, NO_THREADS, FullDisk, SigningCluster
from trikubelet.core.timestamps import SECOND_NS, rfc3339
from trikubelet.kit.every import Every
from trikubelet.kit.threads import ThreadPool
from trikubelet.kube.certificate_files import CertificateFiles
from trikubelet.model.api import SIGNING_REQUESTS
from trikubelet.model.api_errors import ApiFailure, Expired
from trikubelet.model.certificates import CLIENT_SIGNER, SERVING_SIGNER, CertificateRefused, Subject, node_subject
from trikubelet.node.certificate_rotation import CertificateRotation
from trikubelet.node.signing import sign
from trikubelet.testing.memory_api import LoseAnswer
from trikubelet.testing.memory_host import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from trio.testing import MockClock

    from trikubelet.model.api import Change
    from trikubelet.model.certificates import Certificate

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within


class World(SigningCluster):
    """A node of such a cluster, and when its certificate was replaced."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.subject: Subject | None = node_subject("w1")
        self.node_clock = self.clock
        self.changes: list[float] = []
        self.unused: Certificate | None = None

    def rotation(self, signer: str = CLIENT_SIGNER, threads: ThreadPool = NO_THREADS) -> CertificateRotation:
        return CertificateRotation(
            api=self.api,
            store=self.store,
            subject=lambda: self.subject,
            signer=signer,
            clock=self.node_clock,
            changed=lambda: self.changes.append(trio.current_time()),
            chance=random.Random(1),
            threads=threads,
            is_used=self.is_used,
        )

    def is_used(self, held: Certificate) -> bool:
        return held != self.unused


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "pki")


async def _after(seconds: float, happen: Callable[[], None]) -> None:
    await trio.sleep(seconds)
    happen()


async def test_a_request_is_signed_after_a_while(autojump_clock: MockClock, world: World) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.keep_signing)
        found = await world.rotation().renew()
        nursery.cancel_scope.cancel()

    assert found == world.store.current()
    (request,) = world.requests()
    assert (CLIENT_SIGNER, ("digital signature", "client auth")) == (request.spec.signer_name, request.spec.usages)


async def test_a_restart_while_the_request_waits_takes_up_the_same_request(
    autojump_clock: MockClock, world: World
) -> None:
    with trio.move_on_after(60):
        await world.rotation().renew()
    assert 1 == len(world.requests())
    world.sign_all()
    with trio.fail_after(1):
        await world.rotation().renew()

    assert 1 == len(world.requests())
    assert world.store.current() is not None


@pytest.mark.parametrize("when", ["at the start", "later"])
async def test_instead_of_a_certificate_that_is_not_used_another_is_asked_for_at_once(
    autojump_clock: MockClock, world: World, when: str
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.keep_signing)
        unused = await world.rotation().renew()
        if when == "at the start":
            world.unused = unused
        await nursery.start(world.rotation().run)
        await trio.sleep(300)
        world.unused = unused
        await trio.sleep(120)
        nursery.cancel_scope.cancel()

    assert 2 == len(world.requests())
    assert unused != world.store.current()


async def test_instead_of_a_certificate_that_was_removed_another_is_asked_for_within_a_minute(
    autojump_clock: MockClock, world: World
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.keep_signing)
        await nursery.start(world.rotation().run)
        await trio.sleep(300)
        world.store.current_path.unlink()
        await trio.sleep(90)  # the look, and who signs
        nursery.cancel_scope.cancel()

    assert 2 == len(world.requests())
    assert world.store.current() is not None


@pytest.mark.parametrize("is_readable", [True, False])
async def test_certificate_put_in_place_by_hand_counts_if_valid(
    autojump_clock: MockClock, world: World, tmp_path: Path, is_readable: bool
) -> None:
    other = World(tmp_path / "other")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.keep_signing)
        nursery.start_soon(other.keep_signing)
        await nursery.start(world.rotation().run)
        await trio.sleep(300)
        put = await other.rotation().renew()
        pem = other.store.current_path.read_bytes() if is_readable else b"no certificate"
        world.store.current_path.write_bytes(pem)
        await trio.sleep(90)
        nursery.cancel_scope.cancel()

    assert (1 if is_readable else 2) == len(world.requests())
    assert is_readable == (put == world.store.current())


async def test_a_lost_answer_leaves_one_request(autojump_clock: MockClock, world: World) -> None:
    world.api.plan("create", LoseAnswer())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.keep_signing)
        await nursery.start(world.rotation().run)
        await trio.sleep(60)
        nursery.cancel_scope.cancel()

    assert 1 == len(world.requests())
    assert world.store.current() is not None


async def test_nothing_is_asked_for_before_it_is_known_for_which_addresses(
    autojump_clock: MockClock, world: World
) -> None:
    named, world.subject = node_subject("w1", ["w1"], ["10.0.0.1"]), None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.keep_signing)
        await nursery.start(world.rotation(SERVING_SIGNER).run)
        await trio.sleep(600)
        assert [] == world.requests()
        world.subject = named
        await trio.sleep(30)
        assert 1 == len(world.requests())
        world.subject = None  # the node is gone from the cluster: no reason for another certificate
        await trio.sleep(600)
        nursery.cancel_scope.cancel()

    assert 1 == len(world.requests())
    held = world.store.current()
    assert held is not None
    assert {"w1", "10.0.0.1"} == held.names


@pytest.mark.parametrize("type_", ["Denied", "Failed"])
async def test_refusal_has_signer_request_and_reason(autojump_clock: MockClock, world: World, type_: str) -> None:
    request = world.store.request(world.subject, CLIENT_SIGNER)

    async def refuse() -> None:
        await trio.sleep(5)
        condition = {"type": type_, "status": "True", "reason": "Policy", "message": "not in this cluster"}
        world.decide({"conditions": [condition]}, request.name, "approval" if type_ == "Denied" else "status")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(refuse)
        with pytest.raises(CertificateRefused) as refused:
            await sign(world.api, request, CLIENT_SIGNER)
    said, _, advice = str(refused.value).partition("; ")
    assert f"certificate request {request.name} was {type_.lower()}: Policy: not in this cluster" == said
    assert f"see kubectl describe csr {request.name}" in advice


async def test_undecided_request_times_out_with_advice(autojump_clock: MockClock, world: World) -> None:
    with pytest.raises(CertificateRefused, match=r"within 15 minutes; look at it with: kubectl describe csr node-csr-"):
        await world.rotation().renew()


async def test_a_deleted_request_is_no_endless_wait(autojump_clock: MockClock, world: World) -> None:
    request = world.store.request(world.subject, CLIENT_SIGNER)

    async def delete() -> None:
        await trio.sleep(5)
        world.server.delete(SIGNING_REQUESTS, request.name, "", None, "")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(delete)
        with pytest.raises(CertificateRefused, match="deleted before a decision"):
            await sign(world.api, request, CLIENT_SIGNER)


@pytest.mark.parametrize("certificate", ["abc", "!", "no base64 at all"])
async def test_a_certificate_that_is_no_base64_is_refused(
    autojump_clock: MockClock, world: World, certificate: str
) -> None:
    request = world.store.request(world.subject, CLIENT_SIGNER)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_after, 5, lambda: world.decide({"certificate": certificate}, request.name))
        with pytest.raises(CertificateRefused, match="no base64"):
            await sign(world.api, request, CLIENT_SIGNER)


async def test_undecodable_request_is_the_servers_failure(autojump_clock: MockClock, world: World) -> None:
    request = world.store.request(world.subject, CLIENT_SIGNER)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_after, 5, lambda: world.decide({"certificate": 7}, request.name))
        with pytest.raises(ApiFailure):
            await sign(world.api, request, CLIENT_SIGNER)


async def test_a_denied_request_is_recreated_with_another_key(autojump_clock: MockClock, world: World) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(world.rotation().run)
        await trio.sleep(5)
        (first,) = world.requests()
        world.deny(first.metadata.name)
        await trio.sleep(10)
        nursery.cancel_scope.cancel()

    assert 2 == len({request.metadata.name for request in world.requests()})


async def test_a_certificate_of_another_key_is_asked_for_again_with_another_request(
    autojump_clock: MockClock, world: World, tmp_path: Path
) -> None:
    other = CertificateFiles(tmp_path / "other", "kubelet-client", world.clock)
    foreign = world.authority.sign(other.request(node_subject("w1"), CLIENT_SIGNER).pem)
    async with trio.open_nursery() as nursery:
        await nursery.start(world.rotation().run)
        await trio.sleep(5)
        (first,) = world.requests()
        world.give(first.metadata.name, foreign)
        await trio.sleep(10)
        nursery.cancel_scope.cancel()

    assert world.store.current() is None
    assert 2 == len({request.metadata.name for request in world.requests()})


async def test_a_certificate_is_rotated_between_70_and_90_percent_of_its_life(
    autojump_clock: MockClock, world: World
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.keep_signing)
        await nursery.start(world.rotation().run)
        await trio.sleep(10 * LIFE_SECONDS)
        nursery.cancel_scope.cancel()

    gaps = [later - earlier for earlier, later in zip(world.changes, world.changes[1:], strict=False)]
    assert len(gaps) >= 10
    assert all(0.7 * LIFE_SECONDS <= gap <= 0.9 * LIFE_SECONDS + 10 for gap in gaps)
    assert len({round(gap) for gap in gaps}) > 5


async def test_what_certificates_came_to_is_measured(autojump_clock: MockClock, world: World) -> None:
    rotation = world.rotation()
    async with trio.open_nursery() as nursery:
        await nursery.start(rotation.run)
        await trio.sleep(5)
        assert (0, 0) == (rotation.figures.not_after_ns, rotation.figures.failures)
        world.deny(world.requests()[0].metadata.name)
        nursery.start_soon(world.keep_signing)
        await trio.sleep(3 * LIFE_SECONDS)
        nursery.cancel_scope.cancel()

    figures = rotation.figures
    assert 1 == figures.failures
    assert world.clock.now_ns() < figures.not_after_ns <= world.clock.now_ns() + LIFE_SECONDS * SECOND_NS
    assert len(world.changes) - 1 == figures.lived.count  # before the first there was none
    assert 0.7 * LIFE_SECONDS <= figures.lived.sum / figures.lived.count <= 0.9 * LIFE_SECONDS + 10


async def test_a_serving_certificate_follows_the_addresses(autojump_clock: MockClock, world: World) -> None:
    world.subject = node_subject("w1", ["w1"], ["10.0.0.1"])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.keep_signing)
        await nursery.start(world.rotation(SERVING_SIGNER).run)
        await trio.sleep(100)
        world.subject = node_subject("w1", ["w1"], ["10.0.0.2"])
        await trio.sleep(100)
        nursery.cancel_scope.cancel()

    held = world.store.current()
    assert held is not None
    assert {"w1", "10.0.0.2"} == held.names


async def test_a_server_that_is_away_delays_a_rotation_and_no_more(autojump_clock: MockClock, world: World) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.keep_signing)
        await nursery.start(world.rotation().run)
        await trio.sleep(100)
        world.api.link.down()
        await trio.sleep(0.95 * LIFE_SECONDS - 100)
        world.api.link.up()
        await trio.sleep(400)
        nursery.cancel_scope.cancel()

    held = world.store.current()
    assert held is not None
    assert held.valid_at(world.clock.now_ns()), rfc3339(held.not_after_ns)
    assert 2 == len(world.changes)


@pytest.mark.parametrize("what", ["current", "request", "keep"])
async def test_a_disk_that_is_full_delays_a_rotation_and_no_more(
    what: str,
    autojump_clock: MockClock,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.keep_signing)
        await world.rotation().renew()
        await trio.sleep(0.6 * LIFE_SECONDS)
        full = FullDisk(0.35 * LIFE_SECONDS)
        monkeypatch.setattr(world.store, what, full.before(getattr(world.store, what)))
        await nursery.start(world.rotation().run)
        await trio.sleep(0.35 * LIFE_SECONDS + 400)
        nursery.cancel_scope.cancel()

    assert 1 == len(world.changes)
    assert 2 == len(world.requests())
    assert 1 <= full.refused <= 20
    assert "No space left on device" in caplog.text


@pytest.mark.parametrize("what", ["request", "keep"])
async def test_slow_disk_delays_no_other_certificate(what: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_end = trio.Event(), threading.Event()

    def in_thread(name: str, at_once: Callable[..., object], *args: object) -> object:
        if name == what:
            trio.from_thread.run_sync(begun.set)
            assert may_end.wait(60)
        return trio.from_thread.run_sync(at_once, *args)  # the clock is the loop's alone

    for name in ("request", "keep"):
        monkeypatch.setattr(world.store, name, partial(in_thread, name, getattr(world.store, name)))
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.rotation(threads=ThreadPool("certificates", 1)).renew)
            while not begun.is_set():
                world.sign_all()
                await trio.lowlevel.checkpoint()
            may_end.set()
            while not world.requests():
                await trio.lowlevel.checkpoint()
            world.sign_all()
    finally:
        may_end.set()

    assert world.store.current() is not None


@pytest.mark.parametrize("problem", ["the watch ends at once", "its version is always too old"])
async def test_server_with_short_watches_is_not_flooded_while_undecided(
    problem: str, autojump_clock: MockClock, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def watch(*_: object, **__: object) -> AsyncIterator[AsyncIterator[Change]]:
        await trio.lowlevel.checkpoint()
        if problem != "the watch ends at once":
            raise Expired("too old")

        async def nothing() -> AsyncIterator[Change]:
            for change in ():
                yield change

        yield nothing()

    monkeypatch.setattr(world.api, "watch", watch)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_after, 600, world.sign_all)
        found = await world.rotation().renew()

    assert found == world.store.current()
    assert 20 <= sum(request.startswith("get") for request in world.api.requests) <= 30


async def _sign_quickly(world: World) -> None:
    async for _ in Every(0.2):
        world.sign_all()


@pytest.mark.parametrize(
    ("problem", "renewals_max", "last_pause"),  # of a clock that is ahead: half of what is left of each
    [("a name that the signer drops", 25, (300, 350)), ("a clock that is ahead by most of a life", 50, (85, 95))],
)
async def test_a_certificate_that_is_due_as_it_comes_is_asked_for_ever_more_rarely(
    problem: str,
    renewals_max: int,
    last_pause: tuple[float, float],
    autojump_clock: MockClock,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if problem == "a name that the signer drops":
        world.subject = node_subject("w1", ["w1"], ["10.0.0.1"])
        current, kept = world.store.current, frozenset({"w1"})
        monkeypatch.setattr(world.store, "current", lambda: (held := current()) and replace(held, names=kept))
        said = "it is not valid for 10.0.0.1"
    else:
        world.node_clock = VirtualClock()
        world.node_clock.jump(0.95 * LIFE_SECONDS)
        said = "check which clock is wrong"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_sign_quickly, world)
        await nursery.start(world.rotation(SERVING_SIGNER).run)
        await trio.sleep(3600)
        nursery.cancel_scope.cancel()

    gaps = [later - earlier for earlier, later in itertools.pairwise(world.changes)]
    assert 12 <= len(world.changes) <= renewals_max
    assert 2.0 <= gaps[0] < 4.0
    assert last_pause[0] <= gaps[-1] < last_pause[1]
    assert said in caplog.text


async def test_a_certificate_of_a_minute_is_replaced_before_it_ends(autojump_clock: MockClock, world: World) -> None:
    world.authority = Authority(60)
    late = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_sign_quickly, world)
        await nursery.start(world.rotation(CLIENT_SIGNER).run)
        await trio.sleep(2)
        for _ in range(600):
            await trio.sleep(1)
            held = world.store.current()
            late += held is None or world.clock.now_ns() > held.not_after_ns
        nursery.cancel_scope.cancel()

    assert 0 == late


async def test_addresses_written_in_another_way_are_no_others(autojump_clock: MockClock, world: World) -> None:
    world.subject = node_subject("w1", ["w1"], ["FD00:0:0::1"])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_sign_quickly, world)
        await nursery.start(world.rotation(SERVING_SIGNER).run)
        await trio.sleep(600)
        nursery.cancel_scope.cancel()

    assert 1 == len(world.changes)


def test_a_subject_names_everything_it_is_valid_for() -> None:
    assert {"a", "10.0.0.1"} == Subject("x", (), ["a"], ["10.0.0.1"]).names
    assert {"fd00::1"} == Subject("x", (), (), ["FD00:0:0::1"]).names


async def test_a_decision_is_heard_of_though_the_watch_for_it_says_nothing(
    autojump_clock: MockClock, world: World
) -> None:
    async def decide_on_a_dead_connection() -> None:
        await trio.sleep(5)
        world.api.link.silence()
        world.api.link.up()
        world.sign_all()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(decide_on_a_dead_connection)
        with trio.fail_after(120):
            found = await world.rotation().renew()

    assert found == world.store.current()
