"""What a node tells its cluster of pods beside their status: that it does not take one, and why, that it ends one for
another, and the events of one it took. The reasons are upstream's words, which operators and controllers look for.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from live.kit import network
from live.kit.cluster_agent import EVENTS, PODS, ClusterAgent
from live.kit.manifests import container, pod
from live.kit.watched import condition, is_ready

if TYPE_CHECKING:
    from live.kit.containerd import Containerd
    from live.kit.control_plane import ControlPlane
    from live.kit.watched import Objects

pytestmark = pytest.mark.slow


def listening(port: int) -> dict[str, Any]:
    return container("s", "serve", "8080", ports=[{"containerPort": 8080, "hostPort": port}])


def test_pods_the_scheduler_was_not_asked_about_are_refused_with_their_reasons(member: ClusterAgent) -> None:
    port = network.free_port()
    greedy = container("c", "exit", "0", resources={"requests": {"cpu": "1000"}})
    unsafe = {"sysctls": [{"name": "net.core.somaxconn", "value": "64"}]}
    terms = [
        {"matchExpressions": [{"key": "no-such", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "NotIn", "values": ["linux"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["another"]}]},
    ]
    wants = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    refused = {
        "apart": ("NodeAffinity", pod("apart", container("c", "exit", "0"), affinity=wants)),
        "elsewhere": ("NodeAffinity", pod("elsewhere", container("c", "exit", "0"), nodeSelector={"no-such": "label"})),
        "greedy": ("OutOfcpu", pod("greedy", greedy)),
        "huge": ("OutOfcpu", pod("huge", container("c", "exit", "0"), resources={"requests": {"cpu": "1000"}})),
        "late": ("NodePorts", pod("late", listening(port))),
        "unsafe": ("SysctlForbidden", pod("unsafe", container("c", "exit", "0"), securityContext=unsafe)),
    }
    create = member.plane.kubectl
    with member.watch(PODS) as pods, member.watch(EVENTS) as events:
        create("create", "-f-", manifests=pod("first", listening(port), nodeName=member.name))
        pods.wait(lambda now: is_ready(now.get("first", {})), "the first runs", story=member.story)
        running = member.containerd.tasks()
        for _, manifest in refused.values():
            manifest["spec"]["nodeName"] = member.name
            create("create", "-f-", manifests=manifest)

        def all_failed(now: Objects) -> bool:
            return all("Failed" == now.get(name, {}).get("status", {}).get("phase") for name in refused)

        now = pods.wait(all_failed, "all of them are refused", story=member.story)
        assert {name: why for name, (why, _) in refused.items()} == {
            name: now[name]["status"]["reason"] for name in refused
        }
        for name, (why, _) in refused.items():
            said = partial(is_told, why, now[name]["metadata"]["uid"])
            events.wait(said, f"the event {why}", 30, member.story)
        assert running == member.containerd.tasks()


def test_a_critical_pod_gets_the_place_of_a_lesser_one(control_plane: ControlPlane, containerd2: Containerd) -> None:
    kubectl = control_plane.kubectl
    with ClusterAgent(containerd2, control_plane, maxPods=1) as agent:
        agent.wait_ready()
        with agent.watch(PODS) as pods, agent.watch(EVENTS) as events:
            lesser = pod("lesser", container("c", "stubborn"), nodeName=agent.name, terminationGracePeriodSeconds=3)
            kubectl("create", "-f-", manifests=lesser)
            before = pods.wait(lambda now: is_ready(now.get("lesser", {})), "the lesser runs", story=agent.story)
            critical = pod("critical", container("c", "serve", "8080"), nodeName=agent.name)
            critical["spec"]["priorityClassName"] = "system-node-critical"
            kubectl("create", "-f-", manifests=critical)
            now = pods.wait(lambda now: is_ready(now.get("critical", {})), "the critical runs", story=agent.story)
            ended = now["lesser"]["status"]
            assert 2_000_001_000 == now["critical"]["spec"]["priority"]
            assert ("Failed", "Preempting") == (ended["phase"], ended["reason"])
            assert "True" == condition(now["lesser"], "DisruptionTarget")
            said = partial(is_told, "Preempting", before["lesser"]["metadata"]["uid"])
            events.wait(said, "the event Preempting", 30, agent.story)


def test_a_pods_life_is_reported_in_events(member: ClusterAgent) -> None:
    kubectl = member.plane.kubectl
    with member.watch(PODS) as pods, member.watch(EVENTS) as events:
        kubectl("create", "-f-", manifests=pod("told", container("s", "serve", "8080")))
        found = pods.wait(lambda now: is_ready(now.get("told", {})), "it runs", story=member.story)["told"]
        kubectl("delete", "pod", "told")
        uid = found["metadata"]["uid"]
        life = {"Pulled", "Created", "Started", "Killing"}
        told = events.wait(lambda told: life <= reasons(told, uid), "its life is told", 30, member.story)
    ours = [event for event in about(told, uid) if event["reason"] in life]
    assert {("kubelet", member.name)} == {(event["source"]["component"], event["source"]["host"]) for event in ours}


def about(events: Objects, uid: str) -> list[dict[str, Any]]:
    """Those about the object of that UID."""
    return [event for event in events.values() if event["involvedObject"].get("uid") == uid]


def is_told(why: str, uid: str, events: Objects) -> bool:
    return why in reasons(events, uid)


def reasons(events: Objects, uid: str) -> set[str]:
    return {event["reason"] for event in about(events, uid)}
