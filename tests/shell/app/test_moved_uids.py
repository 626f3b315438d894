"""A UID that moves to a pod of another name: what runs under it stays what it is, and ends before the other begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio
from msgspec.structs import replace

from shell.app.test_node_in_memory import Bench, starts_and_ends, until
from shell.app.test_view import seen, words
from shell.pods.shellkit import Bench as PodBench
from shell.pods.test_rejected_pods import Late
from trikubelet.app.node import run_node
from trikubelet.model.k8s import PodSecurityContext
from trikubelet.model.runtime import SandboxState
from trikubelet.server.node_view import NotShown
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod

if TYPE_CHECKING:
    from trio.testing import MockClock

    from trikubelet.app.node import Node
    from trikubelet.model.k8s import Pod

UUID = "0f9c3c7e-5b1a-4c55-9a55-2f1f0f9a7a11"
WEB = pod("web", container("web", ["stubborn"]), uid="moved", grace=20)
WEB_WITHOUT = pod("web", container("web"), uid="made-up")
SHOP = pod("shop", container("shop"), uid="moved")
BEHIND_WEB = "Not started yet: its UID is that of pod default/web, which has not ended"
BEHIND_THE_UID = "Not started yet: the pod of UID moved under its name has not ended"


def named(pod: Pod, name: str) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, name=name))


def with_uid(pod: Pod, uid: str) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, uid=uid))


def ready(bench: Bench) -> list[tuple[str, str]]:
    """Name and UID of each sandbox that is ready."""
    return sorted((s.name, s.uid) for s in bench.world.sandboxes.values() if s.state is SandboxState.READY)


def runs(node: Node, uid: str) -> bool:
    status = node.statuses.get(uid)
    return status is not None and status.phase == "Running"


async def test_the_pod_that_gets_a_uid_and_the_one_that_gave_it_away_begin_after_the_end_of_what_ran(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    async with seen(bench, WEB) as (node, view):
        await until(lambda: bench.running() == ["web"])
        node.slots["file"].put(Snapshot((WEB_WITHOUT, SHOP)))
        await trio.sleep(10)

        waits = "WaitsForEarlierPod"
        expected = [("shop", "0/1", waits), ("web", "0/1", waits), ("web", "1/1", "Terminating")]
        assert expected == sorted(words(view))
        told = {shown.metadata.name: shown.status.message for shown in view.pods() if shown.status.reason == waits}
        assert {"shop": BEHIND_WEB, "web": BEHIND_THE_UID} == told
        with pytest.raises(NotShown, match='container "shop" of pod "shop" has not started'):
            await view.log("default", "shop", "shop", previous=False)
        with pytest.raises(NotShown, match="pod not found"):
            view.running_sandbox("default", "shop")

        await until(lambda: [("shop", "1/1", "Running"), ("web", "1/1", "Running")] == sorted(words(view)))
    assert [("shop", "moved"), ("web", "made-up")] == ready(bench)
    first, second, *_ = starts_and_ends(bench)
    assert ["start web", "end web"] == [first, second]


async def test_removed_pod_gives_its_uid_to_another_after_its_end(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(WEB) as node:
        await until(lambda: bench.running() == ["web"])
        node.slots["file"].put(Snapshot((SHOP,)))
        await until(lambda: runs(node, "moved") and bench.running() == ["shop"])
    assert ["start web", "end web", "start shop"] == starts_and_ends(bench)
    assert [("shop", "moved")] == ready(bench)


@pytest.mark.parametrize("with_web", [False, True])
@pytest.mark.parametrize("uid", ["moved", UUID])
async def test_after_a_restart_what_runs_under_the_uid_is_still_what_it_was(
    autojump_clock: MockClock, uid: str, *, with_web: bool
) -> None:
    bench = Bench()
    async with bench.agent(with_uid(WEB, uid)):
        await until(lambda: bench.running() == ["web"])
    async with seen(bench, *([WEB_WITHOUT] if with_web else []), with_uid(SHOP, uid)) as (_, view):
        await until(lambda: any(row[2] == "WaitsForEarlierPod" for row in words(view)))
        assert ("shop", "1/1", "Running") not in words(view)
        expected = [("shop", "1/1", "Running"), *([("web", "1/1", "Running")] if with_web else [])]
        await until(lambda: expected == sorted(words(view)))
        await trio.sleep(60)
        assert expected == sorted(words(view))
    assert [("shop", uid), *([("web", "made-up")] if with_web else [])] == ready(bench)
    first, second, *others = starts_and_ends(bench)
    assert ["start web", "end web"] == [first, second]
    assert ["start shop", *(["start web"] if with_web else [])] == sorted(others)


async def test_nor_does_anything_begin_beside_it_that_is_admitted_when_the_runtime_has_spoken(
    autojump_clock: MockClock,
) -> None:
    bench = PodBench()
    async with bench.agent(WEB):
        await until(lambda: bench.running() == ["web"])
    runtime = Late(bench.world, bench.problems)
    runtime.status_at, runtime.lists_at = trio.current_time() + 3, trio.current_time() + 5
    strict = PodSecurityContext(supplemental_groups_policy="Strict")  # which the node must be known to have
    node = bench.build_node(runtime=runtime)
    async with trio.open_nursery() as nursery:
        node.slots["file"].put(
            Snapshot((replace(WEB_WITHOUT, spec=replace(WEB_WITHOUT.spec, security_context=strict)), SHOP))
        )
        await nursery.start(run_node, node)
        await until(lambda: bench.running() == ["shop", "web"] and runs(node, "made-up"))
        nursery.cancel_scope.cancel()
    assert ["start web", "end web"] == starts_and_ends(bench)[:2]


async def test_a_container_that_had_ended_before_the_restart_is_not_the_other_pods(autojump_clock: MockClock) -> None:
    bench = Bench()
    never = pod("web", container("main", ["exit", "0", "1"]), uid="moved", policy="Never")
    async with bench.agent(never) as node:
        await until(lambda: starts_and_ends(bench) == ["start main", "end main"])
        await until(lambda: node.workers.is_finished("moved"))
    async with bench.agent(named(never, "shop")):
        await until(lambda: starts_and_ends(bench)[2:] == ["start main", "end main"])


async def test_what_the_api_server_may_have_brought_lives_until_that_has_spoken(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(with_uid(WEB, UUID)):
        await until(lambda: bench.running() == ["web"])
    async with bench.agent(with_uid(SHOP, UUID), late=("api",)) as node:
        await trio.sleep(120)
        assert ["start web"] == starts_and_ends(bench)
        node.slots["api"].put(Snapshot())
        await until(lambda: bench.running() == ["shop"])


async def test_what_certainly_was_a_static_pod_ends_without_the_api_servers_word(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(WEB):
        await until(lambda: bench.running() == ["web"])
    async with bench.agent(SHOP, late=("api",)):
        await until(lambda: bench.running() == ["shop"])


@pytest.mark.parametrize("given_up", [True, False])
async def test_a_uid_of_two_sources_is_the_firsts_until_its_pod_is_gone(
    autojump_clock: MockClock, *, given_up: bool
) -> None:
    bench = Bench()
    async with bench.agent(WEB, late=("http",)) as node:
        await until(lambda: bench.running() == ["web"])
        node.slots["http"].put(Snapshot((SHOP,)))
        await trio.sleep(60)
        assert ["web"] == bench.running()
        node.slots["file"].put(Snapshot((WEB_WITHOUT,) if given_up else ()))
        await until(lambda: bench.running() == (["shop", "web"] if given_up else ["shop"]))
        await trio.sleep(60)
    assert ["start web", "end web"] == starts_and_ends(bench)[:2]


async def test_a_pod_that_is_to_be_deleted_before_its_uid_is_free_ends_all_the_same(autojump_clock: MockClock) -> None:
    """The API server keeps it until its node has reported the end."""
    bench = Bench()
    of_server = pod("shop", uid="moved", source="api")
    ends = replace(of_server, metadata=replace(of_server.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
    async with bench.agent(WEB, late=("api",)) as node:
        await until(lambda: bench.running() == ["web"])
        node.slots["api"].put(Snapshot((of_server,)))
        node.slots["file"].put(Snapshot())
        await trio.sleep(5)
        node.slots["api"].put(Snapshot((ends,)))

        def has_ended() -> bool:
            worker = node.workers.worker("moved")
            return worker is not None and worker.pod.metadata.name == "shop" and node.workers.is_finished("moved")

        await until(has_ended)
    assert ["start web", "end web"] == starts_and_ends(bench)


async def test_one_that_changes_or_goes_before_its_uid_is_free_is_as_it_is_wanted_then(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    other = pod("shop", container("other"), uid="moved")
    async with bench.agent(WEB) as node:
        await until(lambda: bench.running() == ["web"])
        node.slots["file"].put(Snapshot((SHOP,)))
        await trio.sleep(5)
        node.slots["file"].put(Snapshot((other,)))
        await until(lambda: bench.running() == ["other"])
        node.slots["file"].put(Snapshot((WEB,)))
        await trio.sleep(0.5)
        node.slots["file"].put(Snapshot())
        await until(lambda: not bench.world.sandboxes)
    assert ["start web", "end web", "start other", "end other"] == starts_and_ends(bench)
