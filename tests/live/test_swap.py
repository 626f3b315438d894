"""A node changes from upstream's kubelet to the agent and back, and no container is started again.

The pods are of every kind that a kubelet remembers something of: static ones and those of the API server, init
containers and sidecars, volumes, probes that can be answered once only, hooks, ended and restarted containers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio

from live.kit.cluster_agent import PODS
from live.kit.daemon import await_that
from live.kit.manifests import pod, shell
from live.kit.swap import SwappedNode
from live.kit.watched import is_ready

if TYPE_CHECKING:
    from live.kit.cluster_agent import ClusterAgent
    from live.kit.containerd import Containerd
    from live.kit.control_plane import ControlPlane
    from live.kit.watched import Objects

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

STAY = "trap 'exit 0' TERM; while :; do sleep 1; done"
ALWAYS_OK = {"exec": {"command": ["true"]}, "periodSeconds": 1}
ONCE_OK = {"exec": {"command": ["rm", "/begun"]}, "periodSeconds": 1}
AMOUNTS = {"requests": {"cpu": "20m", "memory": "16Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}}
VOLUMES: dict[str, dict[str, Any]] = {
    "empty": {"emptyDir": {}},
    "memory": {"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
    "settings": {"configMap": {"name": "kube-root-ca.crt"}},
    "labels": {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    "token": {"projected": {"sources": [{"serviceAccountToken": {"path": "token", "expirationSeconds": 600}}]}},
}
QUIET_SECONDS = 15
"""After a change the node is watched for so long: a kubelet compares everything at its start, and probes once a
second."""

BELIEVED_SECONDS = 12
"""Both kubelets ask the startup probe of a container again that began less than 10 s before they did."""


def stay(name: str = "c", **fields: Any) -> dict[str, Any]:
    """A container that runs until it is stopped."""
    return shell(name, STAY, **fields)


def mounting() -> dict[str, Any]:
    """A pod with a volume of each kind, one of them twice by sub-paths."""
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in VOLUMES]
    parts = [{"name": "empty", "mountPath": "/part", "subPath": "a/b"}]
    return pod(
        "mounting",
        stay(volumeMounts=[*mounts, *parts]),
        volumes=[{"name": name, **source} for name, source in VOLUMES.items()],
    )


def pods_of_the_api() -> list[dict[str, Any]]:
    """Pods of the API server."""
    fails_once = (
        "if [ -e /kept/begun ]; then " + STAY + "; fi; touch /kept/begun; echo so >/dev/termination-log; exit 1"
    )
    kept = [{"name": "kept", "mountPath": "/kept"}]
    return [
        pod("plain", stay()),
        pod("two", stay("a"), stay("b")),
        pod("limited", stay(resources=AMOUNTS)),
        pod("init", stay(), initContainers=[shell("i", "echo done >/dev/termination-log")]),
        pod("sidecar", stay(), initContainers=[stay("s", restartPolicy="Always", startupProbe=ALWAYS_OK)]),
        pod("probed", shell("c", f"touch /begun; {STAY}", startupProbe=ONCE_OK, livenessProbe=ALWAYS_OK)),
        pod("ready", stay(readinessProbe=ALWAYS_OK)),
        pod("succeeded", shell("c", "echo bye >/dev/termination-log"), restartPolicy="Never"),
        pod("failed", shell("c", "exit 3"), restartPolicy="Never"),
        pod("half", stay(), shell("d", "true"), restartPolicy="OnFailure"),
        pod("restarted", shell("c", fails_once, volumeMounts=kept), volumes=[{"name": "kept", "emptyDir": {}}]),
        pod("host", stay(), hostNetwork=True, hostPID=True),
        pod("shared", stay(), shareProcessNamespace=True),
        mounting(),
        pod("hooked", stay(lifecycle={"postStart": {"exec": {"command": ["true"]}}})),
        pod("user", stay(), securityContext={"runAsUser": 1000, "fsGroup": 2000}),
        pod("deadline", stay(), activeDeadlineSeconds=3600),
    ]


def static_pods() -> list[dict[str, Any]]:
    """Pods of manifests."""
    empty = [{"name": "empty", "emptyDir": {}}]
    return [
        pod("static", stay()),
        pod("static-init", stay(), initContainers=[shell("i", "true")]),
        pod("static-sidecar", stay(readinessProbe=ALWAYS_OK), initContainers=[stay("s", restartPolicy="Always")]),
        pod("static-volume", stay(volumeMounts=[{"name": "empty", "mountPath": "/empty"}]), volumes=empty),
    ]


def has_settled(one: dict[str, Any]) -> bool:
    """True for a pod that is ready, has ended, or has the one container that ended beside one that stays."""
    name = one["metadata"]["name"]
    count = sum(status["restartCount"] for status in one["status"].get("containerStatuses", ()))
    states = [next(iter(status["state"])) for status in one["status"].get("containerStatuses", ())]
    if name == "half":
        return sorted(states) == ["running", "terminated"]
    if name == "restarted":
        return is_ready(one) and count == 1
    return is_ready(one) or one["status"].get("phase") in ("Succeeded", "Failed")


def shown(now: Objects) -> dict[str, Any]:
    """What the API server shows of the pods and may not change: UIDs, phases, and of containers what they are, how
    often they were restarted and what they left."""
    return {
        name: (
            one["metadata"]["uid"],
            one["status"]["phase"],
            is_ready(one),
            [
                (status["name"], status["containerID"], status["restartCount"], status.get("started"), status["state"])
                for kind in ("initContainerStatuses", "containerStatuses")
                for status in one["status"].get(kind, ())
            ],
        )
        for name, one in now.items()
    }


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_no_container_is_started_again_when_a_node_changes_kubelets_and_goes_back(
    control_plane: ControlPlane, containerd2: Containerd, *, killed: bool
) -> None:
    kubectl = control_plane.kubectl
    with SwappedNode(containerd2, control_plane) as node:
        ours, upstream = node.ours, node.upstream

        def create(*pods: dict[str, Any]) -> set[str]:
            items = [one | {"spec": {**one["spec"], "nodeName": ours.name}} for one in pods]
            kubectl("create", "-f-", manifests={"apiVersion": "v1", "kind": "List", "items": items})
            return {one["metadata"]["name"] for one in pods}

        def settle(kubelet: ClusterAgent, names: set[str]) -> Objects:
            with ours.watch(PODS) as pods:
                return pods.wait(
                    lambda now: names <= set(now) and all(map(has_settled, now.values())),
                    "every pod has settled",
                    150,
                    kubelet.story,
                )

        def unchanged(kubelet: ClusterAgent, names: set[str], before: Objects, started: dict[str, Any]) -> None:
            trio.run(trio.sleep, QUIET_SECONDS)
            now = settle(kubelet, names)
            assert started == node.started(), kubelet.story()
            assert shown(before) == shown(now), kubelet.story()

        node.change(None, upstream)
        for one in static_pods():
            ours.put(one)
        names = create(*pods_of_the_api()) | {f"{one['metadata']['name']}-{ours.name}" for one in static_pods()}
        settle(upstream, names)
        trio.run(trio.sleep, BELIEVED_SECONDS)
        before, started = settle(upstream, names), node.started()

        node.change(upstream, ours, killed=killed)
        unchanged(ours, names, before, started)

        resized_by_restart = [{"resourceName": name, "restartPolicy": "RestartContainer"} for name in ("cpu", "memory")]
        names |= create(
            pod("begun-here", stay(resources=AMOUNTS)),
            pod("begun-here-resizable", stay(resources=AMOUNTS, resizePolicy=resized_by_restart)),
        )
        before, started = settle(ours, names), node.started()
        begun = {(before[name]["metadata"]["uid"], "c") for name in ("begun-here", "begun-here-resizable")}
        await_that(lambda: begun <= node.recorded(), 60, ours.story)  # docs/changing-kubelets.md: the last second
        node.change(ours, upstream, killed=killed)
        unchanged(upstream, names, before, started)

        node.change(upstream, ours, killed=killed)
        unchanged(ours, names, before, started)
