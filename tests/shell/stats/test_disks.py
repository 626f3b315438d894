"""How full volumes and logs are: measured when asked, believed for a minute, never waited for in vain."""

from __future__ import annotations

import threading
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from core.podkit import pod
from core.statskit import AT_NS, DISK
from shell.stats.statskit import FakeGauges
from shell.threadkit import no_threads
from trikubelet.core.stats.assembly import Disk
from trikubelet.host.gauges import HostGauges
from trikubelet.model import k8s
from trikubelet.model.csi import DriverFailed, VolumeStats
from trikubelet.model.stats_snapshot import VolumeUsed
from trikubelet.model.usage import FsUsage, ImageStore
from trikubelet.stats.disks import PODS_AT_ONCE, SLOW_SECONDS, WAIT_SECONDS_MAX, Disks
from trikubelet.testing.memory_host import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from trio.testing import MockClock

    from trikubelet.ports import Gauges

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

BELIEVED_SECONDS = 20.0
SMALL, LARGE = FsUsage(AT_NS, 1, 1), FsUsage(AT_NS, 9, 9)
VOLUMES = (
    k8s.Volume(name="scratch", empty_dir=k8s.EmptyDirVolumeSource()),
    k8s.Volume(name="memory", empty_dir=k8s.EmptyDirVolumeSource(medium="Memory")),
    k8s.Volume(name="words", config_map=k8s.ConfigMapVolumeSource(name="c")),
    k8s.Volume(name="server", persistent_volume_claim=k8s.PersistentVolumeClaimVolumeSource(claim_name="claim")),
    k8s.Volume(name="own", ephemeral=k8s.EphemeralVolumeSource()),
    k8s.Volume(name="node", host_path=k8s.HostPathVolumeSource(path="/etc")),
)
PLACES = {name: f"/v/{name}" for name in ("scratch", "memory", "words", "server", "own")}
POD = pod("app", meta={"uid": "u1"}, volumes=VOLUMES)
LOGS = "/logs/default_pod_u1/app"


class Places:
    """Volumes that say where they are. ``told``: what their drivers say of them, by place."""

    def __init__(self, told: Mapping[str, VolumeStats | DriverFailed] | None = None) -> None:
        self._told = told or {}

    def places(self, uid: str) -> Mapping[str, str]:
        return PLACES if uid == "u1" else {}

    async def volume_stats(self, uid: str, path: str) -> VolumeStats | None:
        told = self._told.get(path)
        if isinstance(told, DriverFailed):
            raise told
        return told if uid == "u1" else None


def gauges() -> FakeGauges:
    return FakeGauges(disks={**dict.fromkeys(PLACES.values(), SMALL), LOGS: LARGE})


@asynccontextmanager
async def measuring(
    of: Gauges, volumes: Places | None = None, believed_seconds: float = BELIEVED_SECONDS
) -> AsyncIterator[Disks]:
    disks = Disks(of, volumes or Places(), Path("/root"), Path("/logs"), VirtualClock(), believed_seconds)
    async with trio.open_nursery() as nursery:
        await nursery.start(disks.run)
        yield disks
        nursery.cancel_scope.cancel()


async def test_volumes_and_logs_are_measured_and_what_is_the_pods_own_is_known() -> None:
    async with measuring(gauges()) as disks:
        await disks.measure([POD])

        assert ({"app": LARGE}, ()) == (disks.of("u1").logs, disks.of("u2").volumes)
        assert (
            VolumeUsed("scratch", SMALL, is_local=True),
            VolumeUsed("memory", SMALL),
            VolumeUsed("words", SMALL, is_local=True),
            VolumeUsed("server", SMALL, "claim"),
            VolumeUsed("own", SMALL, "pod-own"),
        ) == disks.of("u1").volumes
        assert [("default", "claim"), ("default", "pod-own")] == [(ns, one.claim) for ns, one in disks.claimed()]


async def test_what_is_not_there_is_not_reported_and_the_rest_is() -> None:
    without = gauges()
    del without.disks[LOGS]
    async with measuring(without) as disks:
        await disks.measure([POD])

        assert ({}, 5) == (disks.of("u1").logs, len(disks.of("u1").volumes))


async def test_a_volume_is_as_full_as_its_driver_says(mock_clock: MockClock) -> None:
    told = VolumeStats(60, 100, 40, 9, 10, 1, is_abnormal=True, condition="worn")
    of = gauges()
    places = Places({"/v/server": told, "/v/own": DriverFailed("Internal", "no")})
    async with measuring(of, places) as disks:
        await disks.measure([POD])

        said = FsUsage(VirtualClock().now_ns(), 40, 1, 60, 100, 9, 10)
        assert VolumeUsed("server", said, "claim", is_abnormal=True) == disks.of("u1").volumes[3]
        assert ["scratch", "memory", "words", "server"] == [one.name for one in disks.of("u1").volumes]
        assert (0, 0) == (of.asked["/v/server"], of.asked["/v/own"])


async def test_how_full_a_device_is_is_not_told_unless_its_driver_does(tmp_path: Path) -> None:
    device = tmp_path / "device"
    device.touch()

    class Device(Places):
        def places(self, uid: str) -> Mapping[str, str]:
            return {"server": str(device)}

    for told, expected in ((None, []), (VolumeStats(capacity_bytes=100), [100])):
        async with measuring(HostGauges(VirtualClock()), Device({str(device): told} if told else None)) as disks:
            await disks.measure([POD])

            assert expected == [one.usage.capacity_bytes for one in disks.of("u1").volumes]


async def test_a_measurement_is_believed_for_as_long_as_it_may_be(mock_clock: MockClock) -> None:
    of = gauges()
    async with measuring(of) as disks:
        for _ in range(3):
            await disks.measure([POD])
        assert 1 == of.asked[LOGS]
        mock_clock.jump(BELIEVED_SECONDS + 1)
        await disks.measure([POD])  # what is known is told meanwhile
        while of.asked[LOGS] < 2:
            await trio.lowlevel.checkpoint()


async def test_a_negative_period_has_logs_measured_and_volumes_never() -> None:
    of = gauges()
    places = Places({"/v/server": VolumeStats(capacity_bytes=100)})
    async with measuring(of, places, -1.0) as disks:
        for _ in range(2):
            await disks.measure([POD])

        assert ({"app": LARGE}, ()) == (disks.of("u1").logs, disks.of("u1").volumes)
        assert {LOGS: 1} == of.asked


async def test_a_pod_that_has_gone_is_forgotten() -> None:
    async with measuring(gauges()) as disks:
        await disks.measure([POD])
        await disks.measure([])

        assert Disk({}, ()) == disks.of("u1")
        assert "0 known" in repr(disks)


async def test_a_server_that_is_away_delays_the_first_who_asks_and_nobody_else(mock_clock: MockClock) -> None:
    of = gauges()
    of.held["/v/server"] = threading.Event()
    async with measuring(of) as disks:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(disks.measure, [POD])
            while not disks.of("u1").logs or len(disks.of("u1").volumes) < 4:  # each in a thread of its own
                await trio.lowlevel.checkpoint()
            mock_clock.jump(WAIT_SECONDS_MAX)  # without it the first would wait for ever
        await disks.measure([POD])  # time stands still: this one does not wait
        assert {"scratch", "memory", "words", "own"} == {one.name for one in disks.of("u1").volumes}

        of.held["/v/server"].set()
        while len(disks.of("u1").volumes) < 5:
            await trio.lowlevel.checkpoint()
        assert 1 == of.asked["/v/server"]


async def test_pods_that_take_long_to_measure_keep_no_other_from_being_measured(mock_clock: MockClock) -> None:
    of, gate = gauges(), threading.Event()
    slow = [f"/logs/default_p{n}_u{n}/app" for n in range(2, 2 + PODS_AT_ONCE)]
    of.held = dict.fromkeys(slow, gate)
    of.disks |= dict.fromkeys(slow, LARGE)
    pods = [pod("app", meta={"uid": f"u{n}", "name": f"p{n}"}) for n in range(2, 2 + PODS_AT_ONCE)] + [POD]
    async with measuring(of) as disks:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(disks.measure, pods)
                while not all(of.asked[path] for path in slow):
                    await trio.lowlevel.checkpoint()
                assert [True, True, True] == [disks.of(f"u{n}").is_measured for n in (2, 3, 1)]
                mock_clock.jump(SLOW_SECONDS)
                while not disks.of("u1").logs:
                    await trio.lowlevel.checkpoint()
                mock_clock.jump(WAIT_SECONDS_MAX)
            assert [False, False, True] == [disks.of(f"u{n}").is_measured for n in (2, 3, 1)]
        finally:
            gate.set()
        while not disks.of("u2").logs:
            await trio.lowlevel.checkpoint()
        assert disks.of("u2").is_measured


@pytest.mark.parametrize(
    ("wanted", "stores"),
    [
        (None, []),
        (FsUsage(AT_NS, 1, 1, 600, 1000, 96, 100), [ImageStore("/images", SMALL), ImageStore("/other", LARGE)]),
    ],
)
async def test_a_store_is_what_the_runtime_says_on_its_disk(wanted: FsUsage | None, stores: list[ImageStore]) -> None:
    async with measuring(gauges()) as disks:
        assert (wanted, DISK) == (await disks.store(stores), await disks.root())


async def test_a_disk_that_cannot_be_read_is_not_reported() -> None:
    class Broken(FakeGauges):
        def disk(self, path: str) -> FsUsage:
            raise OSError(5, "Input/output error", path)

    async with measuring(Broken()) as disks:
        assert (None, SMALL) == (await disks.root(), await disks.store([ImageStore("/images", SMALL)]))


async def test_large_directories_hide_no_disk() -> None:
    of, gate = gauges(), threading.Event()
    of.held = {f"/logs/default_p{n}_u{n}/app": gate for n in range(40)}  # each takes longer than anybody waits
    async with measuring(of) as disks:
        try:
            await disks.measure([pod("app", meta={"uid": f"u{n}", "name": f"p{n}"}) for n in range(40)])
            assert DISK == await disks.root()
            images = await disks.store([ImageStore("/images", FsUsage(5, 70, 7))])
        finally:
            gate.set()
    assert images is not None
    assert DISK.capacity_bytes == images.capacity_bytes


async def test_what_is_available_to_images_is_as_new_as_its_measurement() -> None:
    async with measuring(gauges()) as disks:
        found = await disks.store([ImageStore("/images", FsUsage(5, 70, 7))])  # the runtime's look is older
    assert found is not None
    assert AT_NS == found.at_ns


async def test_without_a_thread_to_be_had_nothing_is_measured_until_it_is_due_again(
    mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with measuring(gauges()) as disks:
        with monkeypatch.context() as machine:
            no_threads(machine)
            await disks.measure([POD])
        assert not disks.of("u1").is_measured

        mock_clock.jump(BELIEVED_SECONDS + 1)
        await disks.measure([POD])
        while not disks.of("u1").is_measured:
            await trio.lowlevel.checkpoint()

    assert "bug" not in caplog.text
