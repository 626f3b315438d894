"""Pods resized while they run, by the resize subresource of a real API server: what the kernel then holds them to, what
waits until there is room for it and over an agent's end, and what is refused.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from live.kit.cluster_agent import EVENTS, PODS, ClusterAgent
from live.kit.kernel import limits
from live.kit.manifests import container, pod, shell, state
from live.kit.watched import condition, is_ready
from trikubelet.model import quantity

if TYPE_CHECKING:
    from live.kit.watched import Objects

pytestmark = pytest.mark.slow


def amounts(cpu: str, memory: str) -> dict[str, dict[str, str]]:
    """Requests and limits alike, as the server writes them."""
    return {kind: {"cpu": cpu, "memory": memory} for kind in ("requests", "limits")}


SMALL, LARGE = amounts("100m", "64Mi"), amounts("200m", "128Mi")


def resize(member: ClusterAgent, name: str, **containers: dict[str, Any]) -> None:
    """Ask for these resources, by containers."""
    patch = {"spec": {"containers": [{"name": one, "resources": asked} for one, asked in containers.items()]}}
    member.plane.kubectl("patch", "pod", name, "--subresource", "resize", "-p", json.dumps(patch))


def is_resizing(found: dict[str, Any]) -> bool:
    return any(one["type"].startswith("PodResize") for one in found["status"]["conditions"])


def has(name: str, **containers: dict[str, Any]) -> Any:
    """Whether the pod of that name has seen its spec, is ready and done, and its containers have these resources."""

    def look(now: Objects) -> bool:
        found = now.get(name, {})
        if not is_ready(found) or is_resizing(found):
            return False
        seen = found["status"].get("observedGeneration") == found["metadata"]["generation"]
        return seen and all(
            (state(found, one).get("resources"), state(found, one).get("allocatedResources"))
            == (asked, asked["requests"])
            for one, asked in containers.items()
        )

    return look


def waits(name: str, type_: str, reason: str) -> Any:
    """Whether the pod of that name has that condition for that reason."""

    def look(now: Objects) -> bool:
        conditions = now.get(name, {}).get("status", {}).get("conditions", ())
        return any((one["type"], one.get("reason")) == (type_, reason) for one in conditions)

    return look


def id_of(found: dict[str, Any], name: str) -> str:
    return str(state(found, name)["containerID"].partition("://")[2])


def test_containers_are_changed_as_they_run_or_recreated_as_their_resize_policy_says(member: ClusterAgent) -> None:
    again = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    both = [container("kept", "serve", "8080", resources=SMALL)]
    both.append(container("made", "serve", "8081", resources=SMALL, resizePolicy=again))
    with member.watch(PODS) as pods, member.watch(EVENTS) as events:
        member.plane.kubectl("create", "-f-", manifests=pod("web", *both))
        before = pods.wait(has("web", kept=SMALL, made=SMALL), "it runs", story=member.story)["web"]
        uid = before["metadata"]["uid"]
        assert (200, 128) == limits(member.containerd, f"pod{uid}")
        resize(member, "web", kept=LARGE, made=LARGE)
        after = pods.wait(has("web", kept=LARGE, made=LARGE), "it is resized", story=member.story)["web"]
        assert [(400, 256), (200, 128), (200, 128)] == [
            limits(member.containerd, part) for part in (f"pod{uid}", id_of(after, "kept"), id_of(after, "made"))
        ]
        assert [(True, 0), (False, 1)] == [
            (id_of(before, name) == id_of(after, name), state(after, name)["restartCount"]) for name in ("kept", "made")
        ]
        events.wait(
            lambda now: {"ResizeStarted", "ResizeCompleted"} <= {one["reason"] for one in now.values()}, "the events"
        )
        resize(member, "web", kept=SMALL)
        pods.wait(has("web", kept=SMALL, made=LARGE), "it is resized back", story=member.story)
        assert [(300, 192), (100, 64)] == [
            limits(member.containerd, part) for part in (f"pod{uid}", id_of(after, "kept"))
        ]


def test_requests_alone_limits_that_are_new_and_amounts_that_are_the_same_to_the_kernel(member: ClusterAgent) -> None:
    """As upstream has it: 1m and 2m of a processor are the same shares, 5m and 10m the same quota."""

    def asked(requests: dict[str, str], **limits: str) -> dict[str, Any]:
        return {"requests": requests} | ({"limits": limits} if limits else {})

    before = {
        "a": asked({"cpu": "20m"}),
        "b": asked({"memory": "20Mi"}),
        "c": asked({"cpu": "20m", "memory": "20Mi"}),
        "d": asked({"cpu": "2m"}, cpu="10m"),
    }
    after = {
        "a": asked({"cpu": "30m"}, cpu="40m"),
        "b": asked({"memory": "15Mi"}, memory="50Mi"),
        "c": asked({"cpu": "20m", "memory": "15Mi"}),
        "d": asked({"cpu": "1m"}, cpu="5m"),
    }
    all_of_them = [container(name, "serve", f"808{n}", resources=before[name]) for n, name in enumerate(before)]
    with member.watch(PODS) as pods:
        member.plane.kubectl("create", "-f-", manifests=pod("web", *all_of_them))
        old = pods.wait(has("web", **before), "it runs", story=member.story)["web"]
        resize(member, "web", **after)
        new = pods.wait(has("web", **after), "it is resized", story=member.story)["web"]

    assert [id_of(old, name) for name in before] == [id_of(new, name) for name in before]
    assert [0] * 4 == [state(new, name)["restartCount"] for name in before]


def test_a_pods_own_resources_are_resized_for_its_cgroup_and_for_containers_without(member: ClusterAgent) -> None:
    own = [{"requests": {"cpu": "100m"}, "limits": {"cpu": cpu, "memory": "64Mi"}} for cpu in ("200m", "300m")]
    with member.watch(PODS) as pods:
        whole = pod("web", container("main", "serve", "8080"), resources=own[0])
        member.plane.kubectl("create", "-f-", manifests=whole)
        before = pods.wait(has("web"), "it runs", story=member.story)["web"]
        patch = json.dumps({"spec": {"resources": own[1]}})
        member.plane.kubectl("patch", "pod", "web", "--subresource", "resize", "-p", patch)
        after = pods.wait(
            lambda now: has("web")(now) and now["web"]["status"]["resources"]["limits"]["cpu"] == "300m",
            "it is resized",
            story=member.story,
        )["web"]

    assert id_of(before, "main") == id_of(after, "main")
    assert [(300, 64), (300, 64)] == [
        limits(member.containerd, part) for part in (f"pod{after['metadata']['uid']}", id_of(after, "main"))
    ]


def test_an_init_container_is_resized_as_it_runs(member: ClusterAgent) -> None:
    setup = shell("setup", "while ! test -e /go; do sleep 0.1; done", resources=SMALL)
    with member.watch(PODS) as pods:
        whole = pod("web", container("main", "serve", "8080", resources=SMALL), initContainers=[setup])
        member.plane.kubectl("create", "-f-", manifests=whole)
        runs = pods.wait(
            lambda now: "running" in state(now.get("web", {}), "setup").get("state", {}), "it runs", story=member.story
        )["web"]
        patch = {"spec": {"initContainers": [{"name": "setup", "resources": LARGE}]}}
        member.plane.kubectl("patch", "pod", "web", "--subresource", "resize", "-p", json.dumps(patch))
        pods.wait(
            lambda now: state(now["web"], "setup").get("resources") == LARGE and not is_resizing(now["web"]),
            "it is resized",
            story=member.story,
        )
        assert (200, 128) == limits(member.containerd, id_of(runs, "setup"))
        member.containerd.cri.call("ExecSync", container_id=id_of(runs, "setup"), cmd=["touch", "/go"], timeout=60)
        pods.wait(has("web", main=SMALL), "the pod is ready", story=member.story)


def test_a_resize_without_room_waits_over_the_end_of_its_agent_until_another_pod_has_gone(
    member: ClusterAgent,
) -> None:
    there = quantity.milli(member.node()["status"]["allocatable"]["cpu"])
    large = amounts(f"{there * 7 // 10}m", "64Mi")
    with member.watch(PODS) as pods, member.watch(EVENTS) as events:
        for name, asked in (("web", SMALL), ("other", amounts(f"{there * 6 // 10}m", "64Mi"))):
            main = container("main", "serve", "8080", resources=asked)
            member.plane.kubectl("create", "-f-", manifests=pod(name, main, nodeName=member.name))
        before = pods.wait(lambda now: has("web", main=SMALL)(now) and is_ready(now.get("other", {})), "they run")[
            "web"
        ]
        resize(member, "web", main=large)
        told = pods.wait(waits("web", "PodResizePending", "Deferred"), "it waits", story=member.story)["web"]
        assert (large, SMALL) == (told["spec"]["containers"][0]["resources"], state(told, "main")["resources"])
        assert told["metadata"]["generation"] == told["status"]["observedGeneration"]
        events.wait(lambda now: any(one["reason"] == "ResizeDeferred" for one in now.values()), "the event")
        member.kill()
        member.start()
        member.wait_ready()
        assert "True" == condition(pods.now["web"], "PodResizePending")
        assert (100, 64) == limits(member.containerd, id_of(before, "main"))
        member.plane.kubectl("delete", "pod", "other", "--wait=false")
        after = pods.wait(has("web", main=large), "it is resized", story=member.story)["web"]

    assert id_of(before, "main") == id_of(after, "main")
    assert (there * 7 // 10, 64) == limits(member.containerd, id_of(after, "main"))


def test_less_memory_than_is_used_is_refused_until_it_is_taken_back(member: ClusterAgent) -> None:
    tiny = amounts("100m", "100Ki")
    with member.watch(PODS) as pods, member.watch(EVENTS) as events:
        member.plane.kubectl("create", "-f-", manifests=pod("web", container("main", "serve", "8080", resources=SMALL)))
        before = pods.wait(has("web", main=SMALL), "it runs", story=member.story)["web"]
        resize(member, "web", main=tiny)
        told = pods.wait(waits("web", "PodResizeInProgress", "Error"), "it is refused", story=member.story)["web"]
        (why,) = (one["message"] for one in told["status"]["conditions"] if one["type"] == "PodResizeInProgress")
        events.wait(lambda now: any(one["reason"] == "ResizeError" for one in now.values()), "the event")
        assert (100, 64) == limits(member.containerd, id_of(before, "main"))
        resize(member, "web", main=SMALL)
        after = pods.wait(has("web", main=SMALL), "it is as before", story=member.story)["web"]

    assert "memory limit (102400) below current usage" in why
    assert (id_of(before, "main"), 0) == (id_of(after, "main"), state(after, "main")["restartCount"])
