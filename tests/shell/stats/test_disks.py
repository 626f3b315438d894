"""How full volumes and logs are: measured when asked, believed for a minute, never waited for in vain."""

from __future__ import annotations

import threading
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from core.podkit import pod
from core.statskit import AT_NS, machine, observed
from shell.stats.statskit import FakeGauges
from shell.threadkit import no_threads
from trikubelet.core.eviction.ranking import Candidate, rank
from trikubelet.core.eviction.thresholds import NODEFS, NODEFS_INODES
from trikubelet.core.stats.assembly import Disk, Found, PodFound, assembled
from trikubelet.host.gauges import HostGauges
from trikubelet.kit.thread_turns import ThreadTurns
from trikubelet.model import k8s
from trikubelet.model.csi import VolumeStats
from trikubelet.model.plugins import PluginFailed
from trikubelet.model.stats_snapshot import VolumeUsed
from trikubelet.model.usage import FsUsage, PodGauges
from trikubelet.stats.disks import PODS_AT_ONCE, SLOW_SECONDS, TURNS_AT_ONCE, WAIT_SECONDS_MAX, Disks
from trikubelet.stats.own_files import BELIEVED_SECONDS as OWN_FILES_BELIEVED_SECONDS
from trikubelet.testing.memory_host import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from trio.testing import MockClock

    from trikubelet.model.stats_snapshot import PodUsed
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

    def __init__(self, told: Mapping[str, VolumeStats | PluginFailed] | None = None) -> None:
        self._told = told or {}

    def places(self, uid: str) -> Mapping[str, str]:
        return PLACES if uid == "u1" else {}

    async def volume_stats(self, uid: str, path: str) -> VolumeStats | None:
        told = self._told.get(path)
        if isinstance(told, PluginFailed):
            raise told
        return told if uid == "u1" else None


def gauges() -> FakeGauges:
    return FakeGauges(disks={**dict.fromkeys(PLACES.values(), SMALL), LOGS: LARGE})


def at_least(disks: Disks) -> tuple[bool, Mapping[str, FsUsage], int | None, int | None]:
    """Return whether u1 is measured, its logs, and its least bytes and inodes."""
    it = disks.of("u1")
    assert it.so_far is not None
    return it.is_measured, it.logs, it.so_far.used_bytes, it.so_far.inodes_used


def used_of(it: k8s.Pod, disks: Disks) -> PodUsed:
    """Return the disk usage of a pod with one container in a snapshot."""
    seen = observed("app", uid=it.metadata.uid)
    found = PodFound(it, seen, "", PodGauges(None, {}), disks.of(it.metadata.uid))
    snapshot, _ = assembled(Found("n", machine(), [found], {}, {}), {})
    return snapshot.pods[0]


@asynccontextmanager
async def measuring(
    of: Gauges,
    volumes: Places | None = None,
    believed_seconds: float = BELIEVED_SECONDS,
    turns: ThreadTurns | None = None,
) -> AsyncIterator[Disks]:
    disks = Disks(
        gauges=of,
        volumes=volumes or Places(),
        pods=Path("/pods"),
        pod_logs=Path("/logs"),
        clock=VirtualClock(),
        believed_seconds=believed_seconds,
    )
    disks._turns = turns or ThreadTurns(TURNS_AT_ONCE, hung_seconds=0.01)  # that is real time
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


async def test_the_logs_of_an_ephemeral_container_are_the_pods_too() -> None:
    of = gauges()
    of.disks[LOGS.replace("/app", "/debug")] = SMALL
    debugged = pod("app", meta={"uid": "u1"}, volumes=VOLUMES, ephemeral=("debug",))
    async with measuring(of) as disks:
        await disks.measure([debugged])

        assert {"app": LARGE, "debug": SMALL} == disks.of("u1").logs


async def test_files_of_the_pods_own_directory_that_containers_can_write_are_counted_at_every_look(
    mock_clock: MockClock,
) -> None:
    of = gauges()
    of.disks |= {"/pods/u1/etc-hosts": SMALL, "/pods/u1/containers/app": SMALL, "/pods/u1/containers/debug": LARGE}
    debugged = pod("app", meta={"uid": "u1"}, volumes=VOLUMES, ephemeral=("debug",))
    async with measuring(of) as disks:
        await disks.measure([debugged])
        used = used_of(debugged, disks)

        assert SMALL == used.containers[0].messages
        assert used.own_files is not None
        assert (10, 10) == (used.own_files.used_bytes, used.own_files.inodes_used), "the ephemeral one does not run"

        of.disks["/pods/u1/etc-hosts"] = FsUsage(AT_NS, 80, 1)
        mock_clock.jump(OWN_FILES_BELIEVED_SECONDS + 1)
        await disks.measure([debugged])

        assert used_of(debugged, disks).own_files == FsUsage(AT_NS, 89, 10)
        assert 1 == of.asked[LOGS], "directories that may be large are believed for longer"


async def test_files_that_hang_delay_one_look_and_take_one_thread(mock_clock: MockClock) -> None:
    of = gauges()
    of.held["/pods/u1/etc-hosts"] = held = threading.Event()
    async with measuring(of) as disks:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(disks.measure, [POD])
            while not of.asked["/pods/u1/etc-hosts"]:  # a thread takes time of its own
                await trio.lowlevel.checkpoint()
            mock_clock.jump(WAIT_SECONDS_MAX + 1)
        await disks.measure([POD])
        await disks.counted([POD])

        assert {"app": LARGE} == disks.of("u1").logs
        assert disks.of("u1").hosts is None
        assert 1 == of.asked["/pods/u1/etc-hosts"], "one thread is all that hangs"
        held.set()


async def test_what_is_not_there_is_not_reported_and_the_rest_is() -> None:
    without = gauges()
    del without.disks[LOGS]
    async with measuring(without) as disks:
        await disks.measure([POD])

        assert ({}, 5) == (disks.of("u1").logs, len(disks.of("u1").volumes))


async def test_a_volume_is_as_full_as_its_driver_says(mock_clock: MockClock) -> None:
    told = VolumeStats(60, 100, 40, 9, 10, 1, is_abnormal=True, condition="worn")
    of = gauges()
    places = Places({"/v/server": told, "/v/own": PluginFailed("Internal", "no")})
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
        assert {LOGS: 1, "/pods/u1/etc-hosts": 1, "/pods/u1/containers/app": 1} == of.asked


async def test_a_pod_that_has_gone_is_forgotten() -> None:
    async with measuring(gauges()) as disks:
        await disks.measure([POD])
        await disks.measure([])

        assert Disk({}, ()) == disks.of("u1")
        assert "0 known" in repr(disks)


async def test_unavailable_server_delays_only_the_first_caller(mock_clock: MockClock) -> None:
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
                mock_clock.jump(SLOW_SECONDS)
                while not disks.of("u1").logs:
                    await trio.lowlevel.checkpoint()
                mock_clock.jump(WAIT_SECONDS_MAX)
            assert [False, False, True] == [disks.of(f"u{n}").is_measured for n in (2, 3, 1)]
        finally:
            gate.set()
        await disks.counted(pods)
        assert [True, True] == [disks.of(f"u{n}").is_measured for n in (2, 3)]


async def test_what_a_pod_uses_at_least_is_known_while_it_is_counted(mock_clock: MockClock) -> None:
    of, gate = gauges(), threading.Event()
    of.held = {LOGS: gate, "/v/memory": gate, "/v/words": gate}
    of.so_far = {LOGS: (70, 7), "/v/memory": (500, 5)}
    async with measuring(of) as disks:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(disks.measure, [POD])
                while not of.asked[LOGS]:
                    await trio.lowlevel.checkpoint()
                assert (False, {}, 70, 7) == at_least(disks)
                mock_clock.jump(WAIT_SECONDS_MAX)
        finally:
            gate.set()
        await disks.counted([POD])
        assert (True, {"app": LARGE}, None) == ((it := disks.of("u1")).is_measured, it.logs, it.so_far)


class NotedTurns(ThreadTurns):
    """Notes who took a turn and who passed it on."""

    def __init__(self) -> None:
        super().__init__(1)
        self.passed: list[object] = []

    def pass_on(self, who: object) -> None:
        assert who in self._since, "it has a turn"
        self.passed.append(who)
        super().pass_on(who)


async def test_expired_count_is_waited_for_by_eviction(mock_clock: MockClock) -> None:
    of = gauges()
    of.held["/v/server"] = threading.Event()  # somebody else's disk, which nobody has to know
    async with measuring(of) as disks:
        try:
            await disks.counted([POD])
            of.disks[LOGS] = SMALL
            await disks.counted([POD])
            assert {"app": LARGE} == disks.of("u1").logs, "it is young"
            mock_clock.jump(BELIEVED_SECONDS + 1)
            await disks.counted([POD])
            assert {"app": SMALL} == disks.of("u1").logs
        finally:
            of.held["/v/server"].set()


async def test_pod_being_counted_without_requests_is_not_counted_twice() -> None:
    of, gate = gauges(), threading.Event()
    of.held[LOGS] = gate
    async with measuring(of) as disks:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(disks.measure, [POD])
                while not of.asked[LOGS]:
                    await trio.lowlevel.checkpoint()
                await disks.measure([])
                nursery.start_soon(disks.measure, [POD])
                await trio.testing.wait_all_tasks_blocked()
                gate.set()
        finally:
            gate.set()
        await disks.counted([POD])
        assert 1 == of.asked[LOGS]


async def test_threads_that_count_take_turns() -> None:
    of, turns = gauges(), NotedTurns()
    of.so_far = {LOGS: (70, 7), "/v/words": (30, 3), "/v/server": (1, 1)}
    async with measuring(of, turns=turns) as disks:
        await disks.measure([POD])

    assert 2 == len(turns.passed), "a server's disk delays its own thread alone"
    assert [] == list(turns._since)


async def test_memory_is_not_counted_as_disk_meanwhile() -> None:
    of, gate = gauges(), threading.Event()
    of.held, of.so_far = {"/v/words": gate}, {"/v/words": (30, 3)}
    async with measuring(of) as disks:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(disks.measure, [POD])
                while not of.asked["/v/words"]:
                    await trio.lowlevel.checkpoint()
                wanted = LARGE.used_bytes or 0, SMALL.used_bytes or 0  # of the log and scratch, without memory's
                assert (False, {}, sum(wanted) + 30, 10 + 3) == at_least(disks)
                gate.set()
        finally:
            gate.set()


async def test_a_hog_goes_before_those_that_take_long_to_count(mock_clock: MockClock) -> None:
    """From the disk to the ranking: what one of the two halves says is of no use if the other takes it otherwise."""
    of, gate = gauges(), threading.Event()
    slow = [f"/logs/default_p{n}_u{n}/app" for n in (2, 3)]
    of.held, of.so_far = dict.fromkeys(slow, gate), dict.fromkeys(slow, (10, 400_000))
    of.disks["/logs/default_hog_u9/app"] = FsUsage(AT_NS, 2 << 30, 1)
    pods = [pod("app", meta={"uid": f"u{n}", "name": f"p{n}"}) for n in (2, 3)]
    pods.append(pod("app", meta={"uid": "u9", "name": "hog"}))
    async with measuring(of) as disks:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(disks.measure, pods)
                while not all(of.asked[path] for path in slow):
                    await trio.lowlevel.checkpoint()
                mock_clock.jump(SLOW_SECONDS)
                while not disks.of("u9").logs:
                    await trio.lowlevel.checkpoint()
                mock_clock.jump(WAIT_SECONDS_MAX)
            candidates = [Candidate(one, used_of(one, disks)) for one in pods]
        finally:
            gate.set()
    for signal, first in ((NODEFS, "hog"), (NODEFS_INODES, "p2")):
        assert first == rank(candidates, signal, image_disk=False)[0].pod.metadata.name


async def test_measuring_without_a_thread_is_retried_on_the_next_request(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with measuring(gauges()) as disks:
        with monkeypatch.context() as machine:
            no_threads(machine)
            await disks.measure([POD])
        assert (False, {}, 0, 0) == at_least(disks)

        await disks.measure([POD])
        assert disks.of("u1").is_measured

    assert "bug" not in caplog.text


async def test_what_is_known_stays_while_no_thread_is_to_be_had(
    mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with measuring(gauges()) as disks:
        await disks.measure([POD])
        known = disks.of("u1")
        mock_clock.jump(BELIEVED_SECONDS + 1)
        no_threads(monkeypatch)
        await disks.measure([POD])
        await trio.testing.wait_all_tasks_blocked()

        assert (known, True) == (disks.of("u1"), known.is_measured)


async def test_measuring_without_a_thread_is_not_waited_for(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with measuring(gauges()) as disks:
        no_threads(monkeypatch)
        before = trio.current_time()
        await disks.measure([POD])
        assert before == trio.current_time()


async def test_a_bug_that_a_driver_provokes_costs_its_volume_alone(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Provoked(Places):
        async def volume_stats(self, uid: str, path: str) -> VolumeStats | None:
            if path == "/v/server":
                raise ValueError("never thought of")
            return await super().volume_stats(uid, path)

    of = gauges()
    async with measuring(of, Provoked()) as disks:
        await disks.measure([POD])  # time stands still: nothing is waited for in vain

        assert ["scratch", "memory", "words", "own"] == [one.name for one in disks.of("u1").volumes]
    assert 0 == of.asked["/v/server"], "what its driver does not tell is not looked for behind its back"
    assert ["Volume u1/server: a bug in measuring its usage; none is reported"] == caplog.messages
