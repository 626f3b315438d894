"""A member of a cluster that is short of something, and pods beyond limits of their own: who ends, and what users see.

The threshold is a soft one that this machine always crosses: a hard one would be kept free of pods, and none would fit.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from live.kit.cluster_agent import EVENTS, NODES, PODS, ClusterAgent
from live.kit.manifests import pod, shell
from live.kit.watched import condition, is_ready

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    much = {"resources": {"limits": {"ephemeral-storage": "100Mi"}}}
    sidecar = {**shell("side", WRITES.format("/f"), **limit), "restartPolicy": "Always"}
    cache = [{"name": "cache", "emptyDir": {"sizeLimit": "1Mi"}}]
    mount = {"volumeMounts": [{"name": "cache", "mountPath": "/cache"}]}
    with ClusterAgent(containerd2, control_plane, volumeStatsAggPeriod="1s") as member:
        member.wait_ready()
        with member.watch(PODS) as pods:
            create(
                member,
                pod("in-volume", shell("c", WRITES.format("/cache/f"), **mount), volumes=cache),
                pod("in-layer", shell("c", WRITES.format("/f"), **limit)),
                pod("in-hosts", shell("c", WRITES.format("/etc/hosts"), **limit)),
                pod("in-message", shell("c", WRITES.format("/dev/termination-log"), **limit)),
                pod("in-sidecar", shell("c", "sleep 1000", **much), initContainers=[sidecar]),
                pod("modest", shell("c", "sleep 1000", **mount, **limit), volumes=cache),
            )
            said = 'Usage of EmptyDir volume "cache" exceeds the limit "1Mi". '
            pods.wait(has_failed("in-volume", "Evicted", said), "it is evicted", 90, member.story)
            said = "exceeds the total limit of containers 1Mi. "
            for name in ("in-layer", "in-hosts", "in-message"):
                pods.wait(has_failed(name, "Evicted", said), "it is evicted", 90, member.story)
            said = 'Container side exceeded its local ephemeral storage limit "1Mi". '
            pods.wait(has_failed("in-sidecar", "Evicted", said), "it is evicted", 90, member.story)
            now = pods.wait(all_ready("modest"), "it runs", 30, member.story)
            assert not condition(now["in-volume"], "DisruptionTarget")  # it is itself to blame, and a Job counts it
        measured = member.measured()
        assert 1 == measured['kubelet_evictions{eviction_signal="emptydirfs.limit"}']
        assert 3 == measured['kubelet_evictions{eviction_signal="ephemeralpodfs.limit"}']
        assert 1 == measured['kubelet_evictions{eviction_signal="ephemeralcontainerfs.limit"}']


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


@pytest.fixture
def small_disk(containerd2: Containerd, control_plane: ControlPlane) -> Iterator[ClusterAgent]:
    """A member, not started, whose root directory is a small file system of its own, which only the runtime's world
    has mounted: so the agent's socket is seen there alone."""
    member = ClusterAgent(containerd2, control_plane)
    member.root.mkdir()
    subprocess.run(containerd2.inside(["mount", "-t", "tmpfs", "-o", "size=8m", "small", str(member.root)]), check=True)
    try:
        yield member
    finally:
        member.kill()
        subprocess.run(containerd2.inside(["umount", "--lazy", str(member.root)]), check=True)


def test_agent_starting_on_a_full_disk_evicts_the_pod_that_filled_it(small_disk: ClusterAgent) -> None:
    volume = [{"name": "v", "emptyDir": {}}]
    fills = "while [ ! -e /v/now ]; do sleep 0.1; done; dd if=/dev/zero of=/v/f bs=4k; sleep 1000"
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    member, inside = small_disk, small_disk.containerd.inside
    member.start(wait=False)
    with member.watch(PODS) as pods:
        member.wait_ready()
        create(
            member, pod("filler", shell("c", fills, **mount), volumes=volume), pod("modest", shell("c", "sleep 1000"))
        )
        now = pods.wait(all_ready("filler", "modest"), "both run", 60, member.story)
        member.kill()
        uid = now["filler"]["metadata"]["uid"]
        place = member.root / "pods" / uid / "volumes/kubernetes.io~empty-dir/v"
        subprocess.run(inside(["sh", "-c", f"touch {place}/now; while echo x >>{place}/rest; do :; done"]), check=True)

        member.start(wait=False)
        words = ("The node was low on resource: ephemeral-storage. ",)
        pods.wait(has_failed("filler", "Evicted", *words), "it is evicted", 90, member.story)
        now = pods.wait(all_ready("modest"), "it runs on", 30, member.story)
        assert 0 == now["modest"]["status"]["containerStatuses"][0]["restartCount"]
