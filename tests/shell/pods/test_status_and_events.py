"""The statuses and events of a node without an API server: newest counts, changes have versions, memory is bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from shell.pods.shellkit import Bench, phase, until
from trikubelet.model import k8s
from trikubelet.model.objects import ObjectRef
from trikubelet.sources.snapshot import Snapshot
from trikubelet.status.memory import PodStatuses
from trikubelet.status.recorder import EventRecorder
from trikubelet.testing.builders import container, pod

if TYPE_CHECKING:
    import pytest
    from trio.testing import MockClock

WEB = ObjectRef("Pod", "web", "default", "u")


class Ticks:
    """A clock that goes on by one at each look."""

    def __init__(self) -> None:
        self.now = 0

    def now_ns(self) -> int:
        """The next tick."""
        self.now += 1
        return self.now


def status(phase: str, ready: bool = False, **state: object) -> k8s.PodStatus:
    shown = k8s.ContainerStatus(
        name="main",
        image="i",
        image_id="",
        ready=ready,
        restart_count=0,
        state=k8s.ContainerState(**state),  # type: ignore[arg-type]
    )
    return k8s.PodStatus(phase=phase, container_statuses=(shown,), start_time="2027-01-15T08:00:00Z")


def test_an_event_that_repeats_is_one_event_with_a_count() -> None:
    recorder = EventRecorder(Ticks(), 10)
    for _ in range(3):
        recorder.record(WEB, "Warning", "BackOff", "m")
    recorder.record(WEB, "Warning", "BackOff", "other")

    first, second = recorder.all()
    assert (3, 1, 3) == (first.count, first.first_seen, first.last_seen)
    assert (1, "other") == (second.count, second.message)
    assert (first, second) == recorder.about("u")
    assert () == recorder.about("someone else")


def test_what_was_seen_longest_ago_is_dropped_and_counted() -> None:
    recorder = EventRecorder(Ticks(), 3)
    for n in range(3):
        recorder.record(WEB, "Normal", "R", str(n))
    recorder.record(WEB, "Normal", "R", "0")
    recorder.record(WEB, "Normal", "R", "3")

    assert ["2", "0", "3"] == [event.message for event in recorder.all()]
    assert "<EventRecorder 3 events, 1 dropped>" == repr(recorder)


def test_every_change_of_a_status_has_a_version_and_nothing_else_has() -> None:
    statuses, told = PodStatuses(), []
    statuses.changed.add(lambda uid, _, shown, version: told.append((uid, shown.phase, version)))
    web = pod("web", uid="u")
    for shown in (status("Pending"), status("Pending"), status("Running"), status("Running", ready=True)):
        statuses.publish("u", web, shown)
    statuses.publish(
        "u", web, msgspec.structs.replace(status("Running", ready=True), start_time="2027-01-15T08:00:00.5Z")
    )

    assert [("u", "Pending", 1), ("u", "Running", 2), ("u", "Running", 3)] == told
    statuses.forget("u")
    statuses.publish("u", web, status("Pending"))
    assert ("u", "Pending", 1) == told[-1]
    assert 1 == len(statuses)


def test_a_container_that_came_back_from_its_end_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    statuses = PodStatuses()
    job = pod("job", container("main"), uid="u", policy="Never")
    ended = k8s.ContainerStateTerminated(exit_code=0, reason="Completed")
    statuses.publish("u", job, status("Running", terminated=ended))
    statuses.publish("u", job, status("Running", running=k8s.ContainerStateRunning()))

    held = statuses.get("u")
    assert held is not None
    assert ended == held.container_statuses[0].state.terminated  # type: ignore[union-attr]
    assert "a status was dropped: container main ended permanently (exit code 0) and came back" in caplog.text


async def test_a_pod_that_is_stopped_gets_its_last_word(autojump_clock: MockClock) -> None:
    bench = Bench()
    last: dict[str, k8s.PodStatus] = {}
    async with bench.agent(pod("web", container("a"), container("b", image="nowhere:1"), source="api")) as node:
        node.statuses.changed.add(lambda uid, _, shown, __: last.__setitem__(uid, shown))
        await until(lambda: bench.running() == ["a"])
        node.slots["file"].put(Snapshot())
        await until(lambda: not bench.world.sandboxes)

    final = last["uid-web"]
    assert "Failed" == final.phase
    assert [143, 137] == [c.state.terminated.exit_code for c in final.container_statuses]  # type: ignore[union-attr]
    assert {"False"} == {c.status for c in final.conditions if c.type in ("Ready", "ContainersReady")}


async def test_the_status_of_a_removed_pod_is_forgotten_and_of_a_finished_one_kept(autojump_clock: MockClock) -> None:
    bench = Bench()
    job = pod("job", container("main", ["exit", "0", "1"]), policy="Never")
    async with bench.agent(job, pod("web")) as node:
        await until(lambda: phase(node, "uid-job") == "Succeeded")
        node.slots["file"].put(Snapshot((job,)))
        await until(lambda: node.statuses.get("uid-web") is None)

        assert "Succeeded" == phase(node, "uid-job")


async def test_each_thing_that_is_wrong_with_a_pods_dns_is_an_event_of_its_own(autojump_clock: MockClock) -> None:
    bench = Bench()
    servers = tuple(f"192.0.2.{n}" for n in range(4))
    its_own = k8s.PodDNSConfig(nameservers=servers, searches=tuple(f"d{n}.example" for n in range(33)))
    async with bench.agent(pod("web", dns_config=its_own)) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        told = [(event.reason, event.message) for event in node.events.all() if "DNS" in event.reason]

    fallback, few_servers, few_searches = (message for _, message in told)
    assert ["MissingClusterDNS", "DNSConfigForming", "DNSConfigForming"] == [reason for reason, _ in told]
    assert fallback.startswith('pod: "web_default(uid-web)". kubelet does not have ClusterDNS IP configured')
    assert few_servers.endswith("the applied nameserver line is: 127.0.0.1 192.0.2.0 192.0.2.1")
    assert few_searches.endswith(" d29.example d30.example")
