"""The devices that containers hold: ensured, recorded, found again after a restart, and released."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from core.podkit import container, pod
from shell.csikit import NoThreads
from shell.devicekit import TestPlugin, register
from trikubelet.core.devices.checkpoint import read
from trikubelet.core.devices.decision import Met, Refused
from trikubelet.cri.device_plugins import GrpcDeviceSockets
from trikubelet.cri.plugin_v1 import device_pb2 as pb
from trikubelet.devices.holdings import FILE, DeviceHoldings
from trikubelet.devices.plugins import DevicePlugins
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from trio.testing import MockClock

GPU = "example.com/gpu"


@asynccontextmanager
async def life(place: Path, plugin: TestPlugin | None = None) -> AsyncGenerator[DeviceHoldings, None]:
    """One run of an agent, with a plugin that has registered."""
    plugins = DevicePlugins(place, GrpcDeviceSockets(), NoThreads())  # type: ignore[arg-type]
    holdings = DeviceHoldings(place, plugins, NoThreads())  # type: ignore[arg-type]
    await holdings.load()
    async with trio.open_nursery() as nursery:
        await nursery.start(plugins.run)
        if plugin is None:
            yield holdings
        else:
            async with plugin.serving(place, "gpu"):
                assert "" == await register(place, "gpu", GPU)
                await trio.sleep(1)
                yield holdings
        nursery.cancel_scope.cancel()


def wanting(count: int, uid: str = "u") -> k8s.Pod:
    resources = k8s.ResourceRequirements(limits={GPU: str(count)})
    return pod(container("c", resources=resources), meta={"uid": uid})


def ids(holdings: DeviceHoldings, one: k8s.Pod) -> set[str]:
    held = holdings.of(one, "c").get(GPU)
    return set(held.devices) if held is not None else set()


async def test_container_gets_devices_and_the_plugins_answer_once(autojump_clock: MockClock, place: Path) -> None:
    plugin = TestPlugin("a", "b", "c", advice=("c", "a"))
    async with life(place, plugin) as holdings:
        one = wanting(2)
        assert Met() == await holdings.ensure(one)
        assert {"a", "c"} == ids(holdings, one)
        asked = list(plugin.asked)
        assert Met() == await holdings.ensure(one)
        assert asked == plugin.asked == [(["a", "b", "c"], [], 2), ["a", "c"]]
        answer = pb.ContainerAllocateResponse.FromString(holdings.of(one, "c")[GPU].answer)
        assert {"DEVICES": "a,c"} == dict(answer.envs)
        few = f"requested number of devices unavailable for {GPU}. Requested: 2, Available: 1"
        assert Refused(few) == await holdings.ensure(wanting(2, "v"))


async def test_devices_are_on_disk_before_they_are_used_and_found_by_the_next_run(
    autojump_clock: MockClock, place: Path
) -> None:
    one, plugin = wanting(1), TestPlugin("a", "b")
    async with life(place, plugin) as holdings:
        await holdings.ensure(one)
        before = holdings.of(one, "c")
    assert before[GPU] == next(iter(read((place / FILE).read_bytes()).holdings.values()))

    async with life(place) as holdings:  # the plugin is late
        assert before == holdings.of(one, "c")
        assert Met() == await holdings.ensure(one, keeps=True)
        refused = f"no healthy devices present; cannot allocate unhealthy devices {GPU}"
        assert Refused(refused) == await holdings.ensure(one)
    plugin.asked.clear()
    async with life(place, plugin) as holdings:
        assert Met() == await holdings.ensure(one)
        assert before == holdings.of(one, "c")
        assert [["a"]] == plugin.asked  # once more, because the plugin has registered again
        assert Met() == await holdings.ensure(one)
        assert [["a"]] == plugin.asked


async def test_pods_that_are_served_side_by_side_never_share_a_device(autojump_clock: MockClock, place: Path) -> None:
    pods = [wanting(1, uid) for uid in "uvwx"]
    answers: list[Met | Refused] = []
    # The same advice for all of them.
    async with life(place, TestPlugin("a", "b", "c", advice=("a",))) as holdings:

        async def ensure(one: k8s.Pod) -> None:
            answers.append(await holdings.ensure(one))

        async with trio.open_nursery() as nursery:
            for one in pods:
                nursery.start_soon(ensure, one)
        assert 3 == answers.count(Met())
        assert {"a", "b", "c"} == set.union(*(ids(holdings, one) for one in pods))
        assert 3 == sum(len(ids(holdings, one)) for one in pods)


async def test_failed_or_cancelled_allocation_leaves_nothing_held(autojump_clock: MockClock, place: Path) -> None:
    plugin = TestPlugin("a")
    async with life(place, plugin) as holdings:
        plugin.refuses = True
        refused = await holdings.ensure(wanting(1))
        assert isinstance(refused, Refused)
        assert "no containers return in allocation response" in refused.message
        assert frozenset() == holdings.holders()
        plugin.refuses = False
        plugin.allocating = trio.Event()
        with trio.move_on_after(5):
            await holdings.ensure(wanting(1))
        assert frozenset() == holdings.holders()
        plugin.allocating.set()
        assert Met() == await holdings.ensure(wanting(1, "v"))


async def test_plugin_that_does_not_answer_is_waited_for_within_a_bound(autojump_clock: MockClock, place: Path) -> None:
    plugin = TestPlugin("a")
    plugin.allocating = trio.Event()
    async with life(place, plugin) as holdings:
        refused = await holdings.ensure(wanting(1))
        assert Refused("rpc error: code = DeadlineExceeded desc = context deadline exceeded") == refused


async def test_released_devices_are_free_on_disk_too(autojump_clock: MockClock, place: Path) -> None:
    async with life(place, TestPlugin("a")) as holdings:
        await holdings.ensure(wanting(1))
        assert {"u"} == holdings.holders()
        await holdings.release({"u", "v"})
        assert {} == read((place / FILE).read_bytes()).holdings
        assert Met() == await holdings.ensure(wanting(1, "v"))


async def test_devices_that_cannot_be_recorded_are_reported_and_recorded_later(
    autojump_clock: MockClock, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async with life(place, TestPlugin("a")) as holdings:
        with monkeypatch.context() as patch:
            patch.setattr("trikubelet.devices.holdings.write_privately", full)
            with pytest.raises(OSError, match="No space left"):
                await holdings.ensure(wanting(1))
        assert Met() == await holdings.ensure(wanting(1))
    assert 1 == len(read((place / FILE).read_bytes()).holdings)


@pytest.mark.parametrize("damage", [b"", b'{"Data":{},"Checksum":1}', b"\x00" * 100])
async def test_damaged_file_costs_no_pod_its_devices(autojump_clock: MockClock, place: Path, damage: bytes) -> None:
    one, plugin = wanting(1), TestPlugin("a", "b")
    async with life(place, plugin) as holdings:
        await holdings.ensure(one)
        before = holdings.of(one, "c")
    (place / FILE).write_bytes(damage)
    async with life(place) as holdings:
        assert before == holdings.of(one, "c")
        await holdings.record()
    async with life(place) as holdings:
        assert before == holdings.of(one, "c")


async def test_removed_file_is_forgotten_with_its_copy(autojump_clock: MockClock, place: Path) -> None:
    async with life(place, TestPlugin("a")) as holdings:
        await holdings.ensure(wanting(1))
    (place / FILE).unlink()
    async with life(place) as holdings:
        assert frozenset() == holdings.holders()


async def test_damaged_file_is_kept_aside_and_reported(
    autojump_clock: MockClock, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (place / FILE).write_bytes(b'{"Data":{},"Checksum":1}')
    async with life(place) as holdings:
        assert frozenset() == holdings.holders()
    assert (place / f"{FILE}.damaged").exists()
    assert "checkpoint is corrupted" in caplog.text
