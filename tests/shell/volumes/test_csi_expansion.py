"""Volumes that are expanded under the pods that use them: when that is looked at, what the driver is asked, who is
notified."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from shell.csikit import DRIVER, CsiNodeBench, claiming
from trikubelet.core.csi import PERSISTENT, Volume
from trikubelet.model import k8s
from trikubelet.model.csi import AccessMode, Expand, Publish, Use
from trikubelet.model.plugins import PluginFailed
from trikubelet.testing.memory_plugins import MemoryDriver
from trikubelet.volumes.csi_expansion import BEFORE_USE_SECONDS_MAX, LOOK_SECONDS, NodeExpansion
from trikubelet.volumes.csi_registration import Registered

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trio.testing import MockClock

    from trikubelet.volumes.volumes import DiskVolumes

MIB = 1024**2


@pytest.fixture
def bench(place: Path) -> Iterator[CsiNodeBench]:
    made = CsiNodeBench(place)
    made.cluster.spec = {"capacity": {"storage": "1Mi"}}
    yield made
    made.close()


def enlarge_claim(bench: CsiNodeBench) -> None:
    """A controller has made the volume larger."""
    bench.cluster.spec = {"capacity": {"storage": "2Mi"}}
    bench.cluster.claimed = k8s.PersistentVolumeClaimStatus(
        phase="Bound",
        capacity={"storage": "1Mi"},
        allocated_resource_statuses={"storage": "NodeResizePending"},
        conditions=(k8s.PersistentVolumeClaimCondition(type="FileSystemResizePending", status="True"),),
    )


async def sync(volumes: DiskVolumes, uid: str = "12345678") -> None:
    """One sync of the pod, long enough after the last, and what comes of it."""
    await trio.sleep(LOOK_SECONDS)
    await volumes.set_up(claiming(uid))
    await trio.testing.wait_all_tasks_blocked()


def expansions(bench: CsiNodeBench) -> int:
    return bench.driver.calls.count("expand handle")


def told(bench: CsiNodeBench, uid: str) -> list[tuple[str, str]]:
    return [(event.reason, event.message) for event in bench.events.about(uid)]


async def test_a_volume_is_expanded_under_its_pod_and_claim_and_events_show_it(
    autojump_clock: MockClock, bench: CsiNodeBench
) -> None:
    async with bench.life() as volumes:
        await sync(volumes)
        assert 0 == expansions(bench)
        enlarge_claim(bench)
        await sync(volumes)
        await sync(volumes)

    assert (1, {"handle": 2 * MIB}) == (expansions(bench), bench.driver.sizes)
    assert ({"storage": "2Mi"}, {}, ()) == (
        bench.cluster.claimed.capacity,
        bench.cluster.claimed.allocated_resource_statuses,
        bench.cluster.claimed.conditions,
    )
    assert {"allocatedResourceStatuses": {"storage": "NodeResizeInProgress"}} == bench.cluster.claim_told[0]
    said = [("FileSystemResizeSuccessful", 'MountVolume.NodeExpandVolume succeeded for volume "pv" n')]
    assert said == told(bench, "12345678") == told(bench, "c")


async def test_a_claim_is_looked_at_seldom_however_often_its_pod_is_attempted(
    autojump_clock: MockClock, bench: CsiNodeBench
) -> None:
    async with bench.life() as volumes:
        await sync(volumes)
        enlarge_claim(bench)
        for _ in range(3):
            await volumes.set_up(claiming())
            await trio.testing.wait_all_tasks_blocked()
        assert 0 == expansions(bench)
        await sync(volumes)

    assert 1 == expansions(bench)


async def test_what_another_node_wrote_to_the_claim_is_done_here_too(
    autojump_clock: MockClock, bench: CsiNodeBench
) -> None:
    bench.cluster.claim_modes = ("ReadWriteMany",)
    async with bench.life() as volumes:
        await sync(volumes)
        enlarge_claim(bench)
        bench.cluster.claimed = k8s.PersistentVolumeClaimStatus(phase="Bound", capacity={"storage": "2Mi"})
        await sync(volumes)
        await sync(volumes)

    assert (1, []) == (expansions(bench), bench.cluster.claim_told)


@pytest.mark.parametrize(
    ("times", "state", "code"),
    [
        (1, "NodeResizeInfeasible", "OutOfRange"),
        (2, "NodeResizeInProgress", "Internal"),
        (1, "NodeResizeInProgress", "FailedPrecondition"),  # while it is in use
    ],
)
async def test_a_driver_that_says_no_is_asked_again_unless_it_never_will(
    autojump_clock: MockClock, bench: CsiNodeBench, times: int, state: str, code: str
) -> None:
    async with bench.life() as volumes:
        await sync(volumes)
        enlarge_claim(bench)
        bench.driver.failing = PluginFailed(code, "no")
        await sync(volumes)
        await sync(volumes)

    assert (times, {"storage": state}) == (expansions(bench), bench.cluster.claimed.allocated_resource_statuses)
    why = f"rpc error: code = {code} desc = no"
    said = f'NodeExpandVolume.NodeExpandVolume failed for volume "pv" : {why}'
    assert [("VolumeResizeFailed", said)] == told(bench, "12345678")
    assert f"failed to expand pvc with {why}" == bench.cluster.claimed.conditions[-1].message


async def test_hanging_driver_delays_no_other(autojump_clock: MockClock, bench: CsiNodeBench) -> None:
    async with bench.life() as volumes:
        await sync(volumes)
        enlarge_claim(bench)
        bench.driver.answering = trio.Event()
        began = trio.current_time()
        await sync(volumes)
        assert LOOK_SECONDS == trio.current_time() - began
        await trio.sleep(121)

    # Nobody knows whether it was done, so the claim is told nothing.
    assert ["FileSystemResizePending"] == [one.type for one in bench.cluster.claimed.conditions]
    assert [
        (
            "VolumeResizeFailed",
            'NodeExpandVolume.NodeExpandVolume failed for volume "pv" : '
            "rpc error: code = DeadlineExceeded desc = context deadline exceeded",
        )
    ] == told(bench, "12345678")


async def test_a_volume_that_cannot_be_expanded_in_use_is_expanded_between_two_pods_and_not_asked_about_meanwhile(
    autojump_clock: MockClock, bench: CsiNodeBench
) -> None:
    bench.driver.expands_in_use = False
    async with bench.life() as volumes:
        await sync(volumes)
        enlarge_claim(bench)
        for _ in range(3):
            await sync(volumes)
        assert (1, {"storage": "1Mi"}) == (expansions(bench), bench.cluster.claimed.capacity)
        assert ["VolumeResizeFailed"] == [reason for reason, _ in told(bench, "12345678")]
        await volumes.tear_down("12345678")
        await volumes.set_up(claiming("87654321"))
        assert ["expand handle", "publish handle"] == bench.driver.calls[-2:], "before the pod has it"
        await sync(volumes, "87654321")

    assert (2, {"storage": "2Mi"}, ()) == (
        expansions(bench),
        bench.cluster.claimed.capacity,
        bench.cluster.claimed.conditions,
    )
    assert ["FileSystemResizeSuccessful"] == [reason for reason, _ in told(bench, "87654321")]


async def test_a_pod_starts_though_its_volume_is_not_expanded_before(
    autojump_clock: MockClock, bench: CsiNodeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(request: Expand) -> None:
        bench.driver.calls.append(f"expand {request.path == request.staging_path}")
        await trio.sleep_forever()

    enlarge_claim(bench)
    monkeypatch.setattr(bench.driver, "expand", hang)
    async with bench.life() as volumes:
        began = trio.current_time()
        await volumes.set_up(claiming())
        assert BEFORE_USE_SECONDS_MAX == trio.current_time() - began
        assert ["stage handle", "expand True", "publish handle"] == bench.driver.calls
        await sync(volumes)

    assert "expand False" == bench.driver.calls[-1], "it may be expanded later"


async def test_what_another_pod_has_does_not_keep_a_pod_waiting_for_its_expansion(
    autojump_clock: MockClock, bench: CsiNodeBench
) -> None:
    bench.driver.expands_in_use = False
    async with bench.life() as volumes:
        await sync(volumes)
        enlarge_claim(bench)
        await volumes.set_up(claiming("87654321"))
        assert 0 == expansions(bench)
    # A life that found it published does not take it for unused, either.
    async with bench.life() as volumes:
        await volumes.set_up(claiming())
        assert "publish handle" == bench.driver.calls[-1]
        assert 0 == expansions(bench)


@pytest.mark.parametrize("asked_for", ["volume", "patch_claim_status"])
async def test_a_look_that_outlives_its_pod_does_not_ask_for_what_was_undone(
    autojump_clock: MockClock, bench: CsiNodeBench, monkeypatch: pytest.MonkeyPatch, asked_for: str
) -> None:
    answered, answer = trio.Event(), getattr(bench.cluster, asked_for)

    async def slowly(*args: object) -> object:
        await answered.wait()
        return await answer(*args)

    async with bench.life() as volumes:
        await sync(volumes)
        enlarge_claim(bench)
        monkeypatch.setattr(bench.cluster, asked_for, slowly)
        await trio.sleep(LOOK_SECONDS)
        await volumes.set_up(claiming())
        await trio.testing.wait_all_tasks_blocked()
        await volumes.tear_down("12345678")
        answered.set()
        await trio.testing.wait_all_tasks_blocked()

    assert "unpublish handle" in bench.driver.calls
    assert (0, []) == (expansions(bench), told(bench, "12345678"))
    begun = {"allocatedResourceStatuses": {"storage": "NodeResizeInProgress"}}
    assert [begun] == bench.cluster.claim_told, "which is where the next node goes on from"


async def test_looks_ask_the_server_one_after_the_other(
    autojump_clock: MockClock, bench: CsiNodeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking, most, looks, answer = 0, 0, 0, bench.cluster.claim

    async def slowly(namespace: str, name: str) -> k8s.PersistentVolumeClaim:
        nonlocal asking, most, looks
        asking, looks = asking + 1, looks + 1
        most = max(most, asking)
        await trio.sleep(1)
        asking -= 1
        return await answer(namespace, name)

    monkeypatch.setattr(bench.cluster, "claim", slowly)
    driver = Registered(DRIVER, bench.driver, bench.driver.can, bench.driver.node)
    plugins, attachments = SimpleNamespace(drivers={DRIVER: driver}), SimpleNamespace(claims=bench.cluster)
    expansion = NodeExpansion("n", plugins, attachments, lambda _: nullcontext(), lambda _: True)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        await nursery.start(expansion.run)
        for handle in ("one", "two", "three"):
            volume = Volume("pv", DRIVER, handle, PERSISTENT, claim="data")
            expansion.look(claiming(), volume, Publish(handle, "/target", Use(AccessMode.SINGLE_NODE_WRITER)))
        await trio.sleep(LOOK_SECONDS)
        nursery.cancel_scope.cancel()

    assert (1, 3) == (most, looks)


async def test_a_volume_that_is_only_read_is_left_as_it_is(autojump_clock: MockClock, bench: CsiNodeBench) -> None:
    claim = k8s.PersistentVolumeClaimVolumeSource(claim_name="data", read_only=True)
    enlarge_claim(bench)
    async with bench.life() as volumes:
        reader = claiming()
        reader = k8s.Pod(
            metadata=reader.metadata,
            spec=k8s.PodSpec(
                containers=reader.spec.containers, volumes=(k8s.Volume(name="v", persistent_volume_claim=claim),)
            ),
        )
        await volumes.set_up(reader)
        await trio.testing.wait_all_tasks_blocked()

    assert 0 == expansions(bench)
    assert ["FileSystemResizeFailed"] == [reason for reason, _ in told(bench, "12345678")]


async def test_a_driver_that_cannot_expand_is_not_asked_and_nor_is_the_cluster(
    autojump_clock: MockClock, place: Path
) -> None:
    bench = CsiNodeBench(place, MemoryDriver(frozenset()))
    enlarge_claim(bench)
    try:
        async with bench.life() as volumes:
            await sync(volumes)
            await sync(volumes)
    finally:
        bench.close()

    assert (0, []) == (expansions(bench), bench.cluster.claim_told)


async def test_what_no_pod_has_any_more_is_forgotten(autojump_clock: MockClock, bench: CsiNodeBench) -> None:
    async with bench.life() as volumes:
        await sync(volumes)
        await volumes.tear_down("12345678")
        # Whoever grew it meanwhile, it is staged again as it is.
        bench.cluster.claim_modes = ("ReadWriteMany",)
        bench.cluster.spec = {"capacity": {"storage": "2Mi"}}
        bench.cluster.claimed = k8s.PersistentVolumeClaimStatus(phase="Bound", capacity={"storage": "2Mi"})
        await sync(volumes)

    assert 0 == expansions(bench)
