"""A member of a cluster that is short of something, and pods beyond limits of their own: who ends, and what users see.

The threshold is a soft one that this machine always crosses: a hard one would be kept free of pods, and none would fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from live.kit.cluster_agent import EVENTS, NODES, PODS, ClusterAgent
from live.kit.manifests import pod, shell
from live.kit.watched import condition, is_ready

if TYPE_CHECKING:
    from live.kit.containerd import Containerd
    from live.kit.control_plane import ControlPlane
    from live.kit.watched import Objects

pytestmark = pytest.mark.slow

WRITES = "dd if=/dev/zero of={} bs=1M count=3; sleep 1000"


def has_failed(name: str, reason: str, *words: str) -> Any:
    """Whether the pod of that name has failed for that reason, with a message that begins with ``words``."""

    def look(now: Objects) -> bool:
        status = now.get(name, {}).get("status", {})
        return (status.get("phase"), status.get("reason")) == ("Failed", reason) and all(
            word in status.get("message", "") for word in words
        )

    return look


def all_ready(*names: str) -> Any:
    return lambda now: all(is_ready(now.get(name, {})) for name in names)


def create(member: ClusterAgent, *pods: dict[str, Any]) -> None:
    """On this node, whatever a scheduler would say."""
    for one in pods:
        bound = {**one, "spec": {**one["spec"], "nodeName": member.name}}
        member.plane.kubectl("create", "-f-", manifests=bound)


def told(member: ClusterAgent, reason: str) -> list[dict[str, Any]]:
    """The events of that reason, of any namespace."""
    return list(member.plane.kubectl.get("events", "-A", f"--field-selector=reason={reason}")["items"])


def test_a_pod_beyond_a_limit_of_its_own_is_evicted_and_no_other(
    containerd2: Containerd, control_plane: ControlPlane
) -> None:
    limit = {"resources": {"limits": {"ephemeral-storage": "1Mi"}}}
    cache = [{"name": "cache", "emptyDir": {"sizeLimit": "1Mi"}}]
    mount = {"volumeMounts": [{"name": "cache", "mountPath": "/cache"}]}
    with ClusterAgent(containerd2, control_plane, volumeStatsAggPeriod="1s") as member:
        member.wait_ready()
        with member.watch(PODS) as pods:
            create(
                member,
                pod("in-volume", shell("c", WRITES.format("/cache/f"), **mount), volumes=cache),
                pod("in-layer", shell("c", WRITES.format("/f"), **limit)),
                pod("modest", shell("c", "sleep 1000", **mount, **limit), volumes=cache),
            )
            said = 'Usage of EmptyDir volume "cache" exceeds the limit "1Mi". '
            pods.wait(has_failed("in-volume", "Evicted", said), "it is evicted", 90, member.story)
            said = "exceeds the total limit of containers 1Mi. "
            pods.wait(has_failed("in-layer", "Evicted", said), "it is evicted", 90, member.story)
            now = pods.wait(all_ready("modest"), "it runs", 30, member.story)
            assert not condition(now["in-volume"], "DisruptionTarget")  # it is itself to blame, and a Job counts it
        measured = member.measured()
        assert 1 == measured['kubelet_evictions{eviction_signal="emptydirfs.limit"}']
        assert 1 == measured['kubelet_evictions{eviction_signal="ephemeralpodfs.limit"}']


def test_a_node_short_of_memory_evicts_what_is_not_critical_and_takes_no_best_effort_pod(
    containerd2: Containerd, control_plane: ControlPlane
) -> None:
    settings: dict[str, Any] = {
        "evictionSoft": {"memory.available": "1000Gi"},
        "evictionSoftGracePeriod": {"memory.available": "15s"},
        "evictionMaxPodGracePeriod": 3,
        "evictionPressureTransitionPeriod": "30s",
        "evictionMinimumReclaim": {"memory.available": "1Mi"},
    }
    asks = {"resources": {"requests": {"cpu": "10m"}}}
    stubborn = "trap '' TERM; while :; do sleep 1; done"
    vital = pod("vital", shell("c", "sleep 1000"), priorityClassName="system-node-critical")
    with ClusterAgent(containerd2, control_plane, **settings) as member:
        with member.watch(NODES) as nodes, member.watch(PODS) as pods, member.watch(EVENTS) as events:
            member.wait_ready()
            create(member, pod("hog", shell("c", stubborn, **asks), terminationGracePeriodSeconds=600), vital)
            pods.wait(all_ready("hog", "vital"), "both run", 60, member.story)
            nodes.wait(
                lambda now: condition(now.get(member.name, {}), "MemoryPressure") == "True",
                "it has the condition",
                60,
                member.story,
            )
            words = ("The node was low on resource: memory. Threshold quantity: 1000Gi, available: ", "Container c was")
            pods.wait(has_failed("hog", "Evicted", *words), "it is evicted", 90, member.story)
            create(member, pod("none", shell("c", "sleep 1000")))
            words = ("Pod was rejected: The node had condition: [MemoryPressure]. ",)
            pods.wait(has_failed("none", "Evicted", *words), "it is not taken", 60, member.story)
            events.wait(
                lambda now: any(
                    one["reason"] == "Evicted" and "starved_resource" in one["metadata"].get("annotations", {})
                    for one in now.values()
                ),
                "the event says what was short",
                30,
                member.story,
            )
            now = pods.wait(all_ready("vital"), "it stays", 30, member.story)
            assert 0 == now["vital"]["status"]["containerStatuses"][0]["restartCount"]
        assert any(
            one["message"] == "Attempting to reclaim memory" and one["involvedObject"]["name"] == member.name
            for one in told(member, "EvictionThresholdMet")
        )
        assert 1 == member.measured()['kubelet_evictions{eviction_signal="memory.available"}']
