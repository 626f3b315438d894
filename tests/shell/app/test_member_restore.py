"""A member of a cluster whose etcd is restored from a backup: it counts its versions on from those of the backup, and
has nothing to say to watches of later ones."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
import trio

from shell.memberkit import Bench, until
from trikubelet.core.names import CONFIG_HASH, CONFIG_SOURCE
from trikubelet.model import k8s
from trikubelet.model.api import LEASES, NODES, PODS, PatchKind
from trikubelet.node.lease import NAMESPACE
from trikubelet.sources.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from trio.testing import MockClock

    from trikubelet.model.api import Item, Resource

NOTICED_SECONDS = 15.0
"""The lease is renewed every 10 s."""


@pytest.fixture
def bench() -> Bench:
    return Bench()


def label(bench: Bench, **labels: str) -> None:
    bench.server.patch(NODES, "n", {"metadata": {"labels": labels}}, kind=PatchKind.STRATEGIC)


def back_up(bench: Bench, versions: int = 100_000) -> Callable[[], None]:
    """Return a function that restores the server's present state. So many versions are gone by soon."""
    store = bench.server.store
    backup = store.version, copy.deepcopy(store._objects)
    store.version += versions

    def restore() -> None:
        bench.link.down()
        store.version, store._objects = backup
        store.forget()
        bench.link.up()

    return restore


def fall_silent(bench: Bench) -> None:
    """No watch brings what happens before the restore."""
    bench.link.silence()
    bench.link.up()


def restarts(bench: Bench, name: str) -> int:
    pod = bench.pod(name)
    assert pod is not None
    assert pod.status is not None
    return pod.status.container_statuses[0].restart_count


@pytest.mark.parametrize("is_passed", [False, True], ids=["versions behind", "versions past the old ones"])
async def test_pods_that_a_restore_brings_and_takes_away_are_known_within_seconds(
    autojump_clock: MockClock, bench: Bench, is_passed: bool
) -> None:
    async with bench.agent() as (node, member):
        await member.publisher.registered.wait()
        bench.schedule("kept")
        await until(lambda: bench.is_ready("kept"))
        await trio.sleep(15)
        restore = back_up(bench)
        bench.schedule("lost")
        await until(lambda: bench.is_ready("lost"))
        await trio.sleep(15)
        restore()
        bench.schedule("new")
        if is_passed:
            bench.server.store.version += 200_000
            label(bench, later="yes")
        with trio.fail_after(NOTICED_SECONDS + 5):
            await until(lambda: bench.is_ready("new") and {"kept", "new"} == {p.metadata.name for p in node.desired})

        assert bench.is_ready("kept")


@pytest.mark.parametrize("lost_seconds", [0, 30], ids=["the lease is as it was", "the lease is an older one"])
async def test_a_status_that_was_answered_before_the_restore_and_never_watched_is_written_again(
    autojump_clock: MockClock, bench: Bench, lost_seconds: float
) -> None:
    async with bench.agent() as (_, member):
        await member.publisher.registered.wait()
        bench.schedule("web")
        await until(lambda: bench.is_ready("web"))
        await trio.sleep(15)
        restore = back_up(bench, versions=0)
        await trio.sleep(lost_seconds)
        fall_silent(bench)
        for container in bench.world.all_containers():
            bench.world.end(container.id, 1)
        await until(lambda: bench.is_ready("web") and 1 == restarts(bench, "web"))
        restore()
        assert 0 == restarts(bench, "web")
        if not lost_seconds:
            for n in range(20):  # by which others pass the version of that write
                label(bench, n=f"{n}")
            await trio.sleep(75)  # a bookmark, and a comparison
        await trio.sleep(NOTICED_SECONDS)

        assert 1 == restarts(bench, "web")


@pytest.mark.parametrize("is_passed", [False, True], ids=["versions behind", "versions past the old ones"])
async def test_a_restore_by_less_than_a_lease_is_known_when_a_pods_status_is_written(
    autojump_clock: MockClock, bench: Bench, is_passed: bool
) -> None:
    async with bench.agent() as (node, member):
        await member.publisher.registered.wait()
        bench.schedule("kept")
        await until(lambda: bench.is_ready("kept"))
        await trio.sleep(15)
        lease = bench.server.get(LEASES, "n", NAMESPACE)
        await until(lambda: bench.server.get(LEASES, "n", NAMESPACE) != lease)
        restore = back_up(bench, versions=20)
        bench.schedule("lost")
        await until(lambda: bench.is_ready("lost"))
        restore()
        for n in range(200 * is_passed):
            label(bench, n=f"{n}")
        for container in bench.world.all_containers():
            bench.world.end(container.id, 1)
        with trio.fail_after(45 + NOTICED_SECONDS if is_passed else NOTICED_SECONDS):
            await until(lambda: {"kept"} == {p.metadata.name for p in node.desired})


@pytest.mark.parametrize("is_removed", [True, False])
async def test_a_mirror_that_a_restore_brings_or_takes_is_removed_or_made_within_seconds(
    autojump_clock: MockClock, bench: Bench, is_removed: bool
) -> None:
    annotations = {CONFIG_SOURCE: "file", CONFIG_HASH: "h1"}
    static = k8s.Pod(
        metadata=k8s.ObjectMeta(name="st-n", namespace="default", uid="h1", annotations=annotations),
        spec=k8s.PodSpec(containers=(k8s.Container(name="main", image="web:1"),)),
    )
    async with bench.agent(*[static] * is_removed) as (node, member):
        await member.publisher.registered.wait()
        await trio.sleep(15)
        restore = back_up(bench)
        assert is_removed == bench.is_ready("st-n")
        await trio.sleep(15)
        if is_removed:
            fall_silent(bench)
        node.slots["file"].put(Snapshot(() if is_removed else (static,)))
        await until(lambda: is_removed != bench.is_ready("st-n"))
        restore()
        with trio.fail_after(NOTICED_SECONDS):
            await until(lambda: is_removed == (bench.pod("st-n") is None))


@pytest.mark.parametrize("changed", ["web", "other"])
async def test_a_pods_new_status_is_patched_once_after_a_restore(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    async with bench.agent() as (_, member):
        await member.publisher.registered.wait()
        bench.schedule("web")
        bench.schedule("other")
        await until(lambda: bench.is_ready("web") and bench.is_ready("other"))
        await trio.sleep(15)
        restore = back_up(bench)
        body = {"metadata": {"annotations": {"a": "b"}}}
        bench.server.patch(PODS, changed, body, "default", kind=PatchKind.STRATEGIC)
        await trio.sleep(1)
        restore()
        patches = list[str]()
        patch = bench.api.patch

        async def slow_patch(resource: Resource, name: str, *args: Any, **how: Any) -> Item:
            await trio.sleep(0.02)  # as a server takes
            patches.extend([name] * (resource == PODS))
            return await patch(resource, name, *args, **how)

        monkeypatch.setattr(bench.api, "patch", slow_patch)
        for container in bench.world.running_of(bench.uid("web")):
            bench.world.end(container.id, 1)
        await trio.sleep(600)

        assert (1, True) == (restarts(bench, "web"), bench.is_ready("web"))
        assert len(patches) <= 4


async def test_what_was_answered_of_the_node_before_the_restore_and_never_watched_counts_no_more(
    autojump_clock: MockClock, bench: Bench
) -> None:
    async with bench.agent() as (_, member):
        await member.publisher.registered.wait()
        await trio.sleep(15)
        restore = back_up(bench)
        await trio.sleep(15)
        fall_silent(bench)
        label(bench, later="yes")
        await member.second_look._look()
        assert member.publisher.node is not None
        assert "yes" == member.publisher.node.metadata.labels["later"]
        restore()
        await trio.sleep(NOTICED_SECONDS)

        assert "later" not in member.publisher.node.metadata.labels


async def test_a_pod_is_admitted_by_a_label_given_right_after_the_restore(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench.agent() as (_, member):
        await member.publisher.registered.wait()
        await trio.sleep(15)
        restore = back_up(bench)
        label(bench, later="yes")
        await until(lambda: "later" in member.publisher.node.metadata.labels)  # type: ignore[union-attr] # it is there
        restore()
        monkeypatch.setattr(member.own, "_publish", lambda *_, **__: None)  # the pods' list may be there first
        label(bench, disk="ssd")
        bench.schedule("web", node_selector={"disk": "ssd"})
        await until(lambda: bench.phase("web") not in ("", "Pending"), 30)

    assert "Running" == bench.phase("web")
