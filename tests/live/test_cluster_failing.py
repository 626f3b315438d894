"""A node of a real cluster goes through outages and its pods do not notice: an API server that is away for minutes, an
agent that is killed again and again while a rollout is under way.

The witnesses are containerd, by its events and its processes, and a watch that is kept from before the problem until
after it. ``TRIKUBELET_LIVE_OUTAGE_SECONDS`` and ``TRIKUBELET_LIVE_KILLS`` shorten the problem.
"""

from __future__ import annotations

import os
import random
import time
from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from live.kit import frozen, images
from live.kit.cluster_agent import LEASES, NODES, PODS, ClusterAgent
from live.kit.daemon import await_that
from live.kit.manifests import container, pod
from live.kit.watched import condition, is_ready

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from live.kit.control_plane import ControlPlane
    from live.kit.events import EventLog
    from live.kit.watched import Objects

OUTAGE_SECONDS = float(os.environ.get("TRIKUBELET_LIVE_OUTAGE_SECONDS", "180"))
KILLS = int(os.environ.get("TRIKUBELET_LIVE_KILLS", "30"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240 + OUTAGE_SECONDS + 10 * KILLS)]

PODS_COUNT = 30
REPLICAS = 6
RENAMED = "docker.io/library/nginx:1.28"
LIFE_SECONDS_MAX = 4.0
"""Of an agent that is to be killed, from when its process is there: too little for some to get anywhere."""


def container_ids(pods: Iterable[dict[str, Any]], state: str = "") -> set[str]:
    """The containers of these pods, as containerd knows them: all, or those in that state."""
    return {
        one["containerID"].partition("://")[2]
        for found in pods
        for one in found["status"].get("containerStatuses", ())
        if one.get("containerID") and (not state or state in one["state"])
    }


def restarts(pods: Iterable[dict[str, Any]]) -> set[int]:
    """Every count of restarts there is."""
    return {one["restartCount"] for found in pods for one in found["status"].get("containerStatuses", ())}


def all_ready(now: Objects, count: int) -> bool:
    return len(now) == count and all(map(is_ready, now.values()))


def ended(events: EventLog) -> set[str]:
    return {event.container for event in events.of("/tasks/exit")}


def wait_heartbeat(member: ClusterAgent) -> None:
    """Until the lease is renewed once more."""
    begun = datetime.now(UTC)

    def beats(now: Objects) -> bool:
        return any(datetime.fromisoformat(lease["spec"]["renewTime"]) > begun for lease in now.values())

    with member.watch(LEASES) as leases:
        leases.wait(beats, "a heartbeat", 60, member.story)


def test_an_outage_of_the_api_server_stops_nothing_and_is_made_up_for(member: ClusterAgent) -> None:
    plane, containerd = member.plane, member.containerd
    with member.watch(PODS) as pods:
        plane.kubectl("create", "deployment", "steady", f"--image={images.WEB}", f"--replicas={PODS_COUNT - 1}")
        plane.kubectl("create", "-f-", manifests=pod("goes", container("s", "serve", "8080")))
        before = pods.wait(lambda now: all_ready(now, PODS_COUNT), "all run", 150, member.story)
    running = containerd.tasks()
    (guest,) = container_ids([before["goes"]])
    with containerd.events() as events:  # type: ignore[attr-defined]
        plane.apiserver.stop()
        member.put(pod("static", container("s", "serve", "8080")))
        time.sleep(OUTAGE_SECONDS)  # the outage is what is tested
        await_that(lambda: len(containerd.tasks()) == len(running) + 2, 60, member.story)
        assert running.items() <= containerd.tasks().items()
        # What is deleted while this agent cannot hear of it: it stands still until that has happened.
        frozen.freeze(member.pid)
        plane.apiserver.start()
        plane.kubectl("delete", "pod", "goes", "--force", "--grace-period=0")
        frozen.thaw(member.pid)
        wait_heartbeat(member)
        member.wait_ready(60)
        with member.watch(PODS) as pods:
            mirror = f"static-{member.name}"
            now = pods.wait(lambda now: mirror in now and all_ready(now, PODS_COUNT), "all is told", 90, member.story)
        events.wait_until(lambda: guest in ended(events), "the deleted pod's container has ended", 60)
        kept = {name: found["metadata"]["uid"] for name, found in before.items() if name != "goes"}
        assert kept == {name: found["metadata"]["uid"] for name, found in now.items() if name != mirror}
        assert {0} == restarts(now.values())
        assert not container_ids(now.values()) & ended(events)


def test_an_agent_killed_during_rollouts_loses_no_pod_restarts_none_and_its_node_stays_ready(
    member: ClusterAgent,
) -> None:
    kubectl = member.plane.kubectl
    chance = random.Random(17)  # the moments are repeatable as far as a real machine allows
    log = member.containerd.events()  # type: ignore[attr-defined]
    with member.watch(NODES) as nodes, member.watch(PODS) as pods, log as events:
        kubectl("create", "deployment", "rolling", f"--image={images.WEB}", f"--replicas={REPLICAS}")
        for number in range(KILLS):
            if number % 4 == 0:
                kubectl("set", "image", "deployment/rolling", f"*={RENAMED if number % 8 == 0 else images.WEB}")
            time.sleep(chance.uniform(0, LIFE_SECONDS_MAX))  # the moment is what is tested
            member.kill()
            member.start(wait=number % 3 == 0)
        kubectl("rollout", "status", "deployment", "rolling", "--timeout=120s", seconds=150)
        pods.wait(lambda now: all_ready(now, REPLICAS), "only the last ones are left", 120, member.story)
        node_statuses = [condition(change.object, "Ready") for change in nodes.changes]
        assert {"True"} == set(node_statuses), node_statuses

        # What was once told to run stayed the only container of its pod, and ended only if its pod was to go. One that
        # was being started when the agent was killed may be another matter: containerd gives up what nobody waits for.
        ran: defaultdict[str, set[str]] = defaultdict(set)
        going: set[str] = set()
        for change in pods.changes:
            ran[change.uid] |= container_ids([change.object], "running")
            if "deletionTimestamp" in change.object["metadata"]:
                going.add(change.uid)
        assert 1 == max(map(len, ran.values())), ran
        stay = {one for uid, containers in ran.items() if uid not in going for one in containers}
        assert not stay & ended(events)
        assert REPLICAS == len(stay)
        await_that(lambda: 2 * REPLICAS == len(member.containerd.tasks()), 60, member.story)


def killed_etcd(plane: ControlPlane) -> None:
    plane.etcd.kill()
    plane.etcd.start()


def another_certificate(plane: ControlPlane) -> None:
    """The API server's own, for which it is restarted: nobody who was connected still is."""
    plane.renew_serving_certificate()
    plane.apiserver.kill()
    plane.apiserver.start()


def a_server_that_stands_still(plane: ControlPlane) -> None:
    """Connections stay open and nobody answers, for half of a lease."""
    plane.apiserver.freeze()
    time.sleep(20)  # the time is what is tested
    plane.apiserver.thaw()


@pytest.mark.parametrize("problem", [killed_etcd, another_certificate, a_server_that_stands_still])
def test_a_control_plane_that_stumbles_is_found_again(
    member: ClusterAgent, problem: Callable[[ControlPlane], None]
) -> None:
    plane = member.plane
    plane.kubectl("create", "deployment", "web", f"--image={images.WEB}", "--replicas=2")
    plane.kubectl("rollout", "status", "deployment", "web", "--timeout=60s", seconds=90)
    before = member.containerd.tasks()
    problem(plane)
    plane.apiserver.revive()
    plane.kubectl("scale", "deployment", "web", "--replicas=4")
    with member.watch(PODS) as pods:
        now = pods.wait(lambda now: all_ready(now, 4), "four pods run", 100, member.story)
    assert before.items() <= member.containerd.tasks().items()
    assert {0} == restarts(now.values())
    wait_heartbeat(member)
    member.wait_ready()
