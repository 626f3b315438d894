"""How long pods take to start: from which moment, to which, and what does not count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio

from trikubelet.core.names import CONFIG_SOURCE
from trikubelet.core.timestamps import SECOND_NS, rfc3339
from trikubelet.model import k8s
from trikubelet.pods.startups import Startups
from trikubelet.testing.memory_host import VirtualClock

if TYPE_CHECKING:
    from trio.testing import MockClock

STARTED = k8s.ContainerState(running=k8s.ContainerStateRunning(started_at="2026-01-01T00:00:00Z"))
WAITING = k8s.ContainerState(waiting=k8s.ContainerStateWaiting(reason="ContainerCreating"))


def container(name: str, state: k8s.ContainerState) -> k8s.ContainerStatus:
    return k8s.ContainerStatus(name=name, image="i", image_id="", ready=False, restart_count=0, state=state)


def status(*states: k8s.ContainerState, init: tuple[k8s.ContainerState, ...] = ()) -> k8s.PodStatus:
    return k8s.PodStatus(
        phase="Running",
        container_statuses=tuple(container(str(number), state) for number, state in enumerate(states)),
        init_container_statuses=tuple(container(f"i{number}", state) for number, state in enumerate(init)),
    )


def born(*volumes: k8s.Volume, source: str = "api", **spec: Any) -> k8s.Pod:
    """A pod that is made now."""
    return k8s.Pod(
        metadata=k8s.ObjectMeta(
            name="web",
            uid="u",
            creation_timestamp=rfc3339(VirtualClock().now_ns()),
            annotations={CONFIG_SOURCE: source},
        ),
        spec=k8s.PodSpec(containers=(), volumes=volumes, **spec),
    )


async def start(startups: Startups, pod: k8s.Pod, ran: k8s.PodStatus) -> None:
    """It is seen after two seconds, pulls an image for three, runs after ten, and its server knows after eleven."""
    await trio.sleep(2)
    startups.begun(pod)
    await trio.sleep(3)
    startups.pulled(pod, 3.0)
    startups.status_changed("u", pod, status(STARTED, WAITING), 1)
    await trio.sleep(5)
    for _ in range(2):  # what comes again is no second start
        startups.status_changed("u", pod, ran, 2)
    startups.observed(pod)  # as it was before
    await trio.sleep(1)
    for _ in range(2):
        startups.observed(msgspec.structs.replace(pod, status=ran))


async def test_a_start_is_measured_once_from_each_beginning(autojump_clock: MockClock) -> None:
    startups = Startups(VirtualClock())
    await start(startups, born(), status(STARTED, STARTED))

    assert (1, 8.0) == (startups.seconds.count, startups.seconds.sum)
    assert (1, 11.0) == (startups.total_seconds.count, pytest.approx(startups.total_seconds.sum, abs=1))
    assert startups.total_seconds.sum - 3.0 == pytest.approx(startups.sli_seconds.sum)
    assert startups.first_network_seconds == startups.sli_seconds.sum


async def test_init_containers_do_not_count(autojump_clock: MockClock) -> None:
    startups, now = Startups(VirtualClock()), VirtualClock().now_ns()
    init = k8s.ContainerStateTerminated(exit_code=0, started_at=rfc3339(now), finished_at=rfc3339(now + 4 * SECOND_NS))
    await start(startups, born(), status(STARTED, init=(k8s.ContainerState(terminated=init),)))

    assert startups.total_seconds.sum - 3.0 - 4.0 == pytest.approx(startups.sli_seconds.sum)


@pytest.mark.parametrize(
    ("counts", "volume"),
    [
        (True, k8s.Volume(name="v", empty_dir=k8s.EmptyDirVolumeSource())),
        (True, k8s.Volume(name="v", secret=k8s.SecretVolumeSource(secret_name="s"))),
        (False, k8s.Volume(name="v", host_path=k8s.HostPathVolumeSource(path="/x"))),
        (False, k8s.Volume(name="v", nfs=k8s.NFSVolumeSource(path="/x", server="s"))),
    ],
)
async def test_pods_that_wait_for_storage_are_not_in_the_sli(
    counts: bool, volume: k8s.Volume, autojump_clock: MockClock
) -> None:
    startups = Startups(VirtualClock())
    await start(startups, born(volume), status(STARTED))

    assert (1, int(counts)) == (startups.total_seconds.count, startups.sli_seconds.count)


async def test_the_first_network_is_that_of_a_pod_that_has_one(autojump_clock: MockClock) -> None:
    startups = Startups(VirtualClock())
    await start(startups, born(host_network=True), status(STARTED))
    assert startups.first_network_seconds is None

    await start(startups, born(), status(STARTED))
    assert startups.first_network_seconds is not None


async def test_a_pod_of_the_node_alone_is_measured_until_it_runs(autojump_clock: MockClock) -> None:
    startups = Startups(VirtualClock())
    await start(startups, born(source="file"), status(STARTED))

    assert (1, 0) == (startups.seconds.count, startups.total_seconds.count)
    assert "<Startups: 0 under way, 1 measured>" == repr(startups)


async def test_what_began_before_the_agent_or_ended_before_it_ran_is_not_measured(autojump_clock: MockClock) -> None:
    startups = Startups(VirtualClock())
    old = msgspec.structs.replace(born(), status=k8s.PodStatus(start_time="2026-01-01T00:00:00Z"))
    startups.begun(old)
    startups.status_changed("u", old, status(STARTED), 1)
    fresh = born()
    startups.begun(fresh)
    startups.finished(fresh)
    startups.status_changed("u", fresh, status(STARTED), 1)

    assert 0 == startups.seconds.count
