"""What a pod needs before anything of it runs: in order, told where it is not ready, and taken down the other way."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest
import trio

from shell.pods.shellkit import FixedHealth, Said
from trikubelet.core.user_namespaces import IdPool
from trikubelet.devices.none import NoDevices
from trikubelet.model.bounds import Bounds
from trikubelet.model.errors import CgroupFailed, NetworkNotReady, PodSyncError, VolumeFailed
from trikubelet.model.pod_notes import Note
from trikubelet.pods.figures import PodFigures
from trikubelet.pods.preparation import Preparation
from trikubelet.pods.tear_down import TearDown
from trikubelet.pods.user_ids import UserIds
from trikubelet.testing.builders import pod
from trikubelet.testing.memory_host import MemoryPodCgroups, MemoryPodFiles, MemoryVolumes

if TYPE_CHECKING:
    from trio.testing import MockClock

    from trikubelet.model.k8s import Pod
    from trikubelet.ports import RuntimeHealth

WEB, BEFORE = pod("web"), pod("web", grace=1)


class Place:
    """A machine on which a test lets one part fail, and what was done there, in order."""

    def __init__(self, health: RuntimeHealth | None = None) -> None:
        self.told: list[str] = []
        self.failing: Mapping[str, Exception] = {}
        self.hangs = ""
        self.events = Said()
        self.figures = PodFigures()
        self.files = MemoryPodFiles()
        place = self

        class Volumes(MemoryVolumes):
            async def set_up(self, pod: Pod) -> Mapping[str, str]:
                await place.reach("set up")
                return {"v": "/v"}

            async def tear_down(self, uid: str) -> None:
                await place.reach("tear down")

        class Cgroups(MemoryPodCgroups):
            async def ensure(self, pod: Pod, *, beside: Pod | None = None) -> None:
                await place.reach("ensure" if beside is None else "ensure both")

            async def remove(self, uid: str) -> None:
                await place.reach("remove")

        health = health or FixedHealth()
        cgroups, volumes, bounds = Cgroups(), Volumes(), Bounds(runtime_call_seconds_max=7.0)
        self.preparation = Preparation(
            health=health,
            directories=self.files,
            devices=NoDevices(),
            cgroups=cgroups,
            volumes=volumes,
            tear_down=TearDown(NoDevices(), volumes, cgroups, bounds, self.figures),
            user_ids=UserIds(self.files, IdPool(), health),
            events=self.events,
            bounds=bounds,
            figures=self.figures,
        )

    async def reach(self, step: str) -> None:
        """Do the step, or what a test has for it."""
        await trio.lowlevel.checkpoint()
        if step == self.hangs:
            await trio.sleep_forever()
        if step in self.failing:
            raise self.failing[step]
        self.told.append(step)


async def test_a_pod_waits_for_the_networks_problem_to_end_unless_it_is_on_the_hosts() -> None:
    place = Place(FixedHealth(problem="no plugin"))
    with pytest.raises(NetworkNotReady, match="network is not ready: no plugin"):
        await place.preparation.begin(WEB)
    assert [("Warning", "NetworkNotReady", "network is not ready: no plugin")] == place.events.events
    assert frozenset() == place.files.pods

    await place.preparation.begin(pod("host", host_network=True))
    assert frozenset({"uid-host"}) == place.files.pods


async def test_a_directory_that_cannot_be_made_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(_: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    place = Place()
    monkeypatch.setattr(place.files, "make_pod", full)
    with pytest.raises(PodSyncError, match="error making pod data directories"):
        await place.preparation.begin(WEB)

    assert ["FailedToMakePodDataDirectories"] == place.events.reasons


async def test_a_disk_that_does_not_answer_ends_the_sync(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    async def hang(_: str) -> None:
        await trio.sleep_forever()

    place = Place()
    monkeypatch.setattr(place.files, "make_pod", hang)
    with pytest.raises(PodSyncError, match="the disk did not answer within 7 s"):
        await place.preparation.begin(WEB)

    assert ["FailedToMakePodDataDirectories"] == place.events.reasons


async def test_the_cgroup_comes_before_the_volumes_and_does_for_what_was(autojump_clock: MockClock) -> None:
    place = Place()

    assert {"v": "/v"} == await place.preparation.set_up(WEB, beside=BEFORE)
    assert ["ensure both", "set up"] == place.told

    await place.preparation.ensure_cgroup(WEB)
    assert ["ensure both", "set up", "ensure"] == place.told
    assert 2 == place.figures.cgroups["update"].count


@pytest.mark.parametrize(
    ("done", "reasons", "step", "error"),
    [
        pytest.param([], ["FailedCreatePodContainer"], "ensure", CgroupFailed("FailedCreatePodContainer", "busy")),
        pytest.param(["ensure"], 2 * ["FailedMount"], "set up", VolumeFailed("FailedMount", "one", "another")),
    ],
)
async def test_what_is_not_ready_is_reported_and_ends_the_sync(
    done: list[str], reasons: list[str], step: str, error: PodSyncError, autojump_clock: MockClock
) -> None:
    place = Place()
    place.failing = {step: error}
    with pytest.raises(type(error)):
        await place.preparation.set_up(WEB)

    assert (done, reasons) == (place.told, place.events.reasons)


async def test_volumes_go_before_the_cgroup_and_users_are_given_back_last(autojump_clock: MockClock) -> None:
    place = Place()
    place.files.note("uid-web", Note.USER_IDS, b"some")
    place.failing = {"remove": CgroupFailed("FailedKillPod", "busy")}
    with pytest.raises(CgroupFailed):
        await place.preparation.clean_up(WEB)
    assert (["tear down"], b"some") == (place.told, place.files.noted("uid-web", Note.USER_IDS))

    place.failing = {}
    await place.preparation.clean_up(WEB)
    assert (["tear down", "tear down", "remove"], b"") == (place.told, place.files.noted("uid-web", Note.USER_IDS))
    assert 2 == place.figures.cgroups["destroy"].count


async def test_what_is_down_is_not_taken_down_again_until_something_is_set_up(autojump_clock: MockClock) -> None:
    place = Place()
    for _ in range(2):
        await place.preparation.clean_up(WEB)
    assert ["tear down", "remove"] == place.told

    await place.preparation.set_up(WEB)
    await place.preparation.clean_up(WEB)
    assert ["tear down", "remove", "ensure", "set up", "tear down", "remove"] == place.told


async def test_a_cgroup_that_hangs_is_given_up_in_time(autojump_clock: MockClock) -> None:
    place = Place()
    place.hangs = "remove"
    began = trio.current_time()
    with pytest.raises(CgroupFailed, match="the cgroup could not be removed in time"):
        await place.preparation.clean_up(WEB)

    assert 7.0 == trio.current_time() - began


async def test_volumes_that_hang_are_given_up_in_time_and_keep_the_cgroup(autojump_clock: MockClock) -> None:
    place = Place()
    place.hangs = "tear down"
    began = trio.current_time()
    with pytest.raises(VolumeFailed, match="the volumes could not be unmounted in time"):
        await place.preparation.clean_up(WEB)

    assert (7.0, []) == (trio.current_time() - began, place.told)
