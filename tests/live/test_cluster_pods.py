"""Pods as operators know them, on a node of ours: made by controllers, placed by the scheduler, drained, deleted in
every way there is. The API server's word is kept from the beginning; containerd is the witness of what really ran.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from live.kit import images, network
from live.kit.cluster_agent import PODS, ClusterAgent
from live.kit.daemon import await_that
from live.kit.kubectl import write_kubeconfig
from live.kit.manifests import container, pod, shell, state
from live.kit.watched import condition, is_ready

if TYPE_CHECKING:
    from pathlib import Path

    from live.kit.watched import Objects

pytestmark = pytest.mark.slow

RENAMED = "nginx:1.28"
"""The same web server by another name: a rollout to it makes new pods."""


def all_run(now: Objects, count: int, image: str = images.WEB) -> bool:
    """Whether there are so many pods, all ready and of that image, and none on its way out."""
    return len(now) == count and all(
        is_ready(found)
        and "deletionTimestamp" not in found["metadata"]
        and [image] == [one["image"] for one in found["spec"]["containers"]]
        for found in now.values()
    )


def phase(found: dict[str, Any]) -> str:
    """How far a pod is; nothing where there is none."""
    return str(found.get("status", {}).get("phase", ""))


def ids(found: dict[str, Any]) -> list[str]:
    """The containers of a pod, as containerd knows them."""
    return [one["containerID"].partition("://")[2] for one in found["status"].get("containerStatuses", ())]


def test_a_deployment_is_scaled_rolled_out_and_deleted(member: ClusterAgent) -> None:
    kubectl = member.plane.kubectl
    with member.watch(PODS, labelSelector="app=web") as pods:
        kubectl("create", "deployment", "web", f"--image={images.WEB}", "--replicas=3")
        first = pods.wait(lambda now: all_run(now, 3), "three pods run", story=member.story)
        assert {200} == {network.ask(found["status"]["podIP"], 80, "/")[0] for found in first.values()}
        kubectl("scale", "deployment", "web", "--replicas=5")
        kubectl("rollout", "status", "deployment", "web", "--timeout=60s", seconds=90)
        kubectl("set", "image", "deployment/web", f"{images.WEB.split('/')[-1].split(':')[0]}={RENAMED}")
        kubectl("rollout", "status", "deployment", "web", "--timeout=90s", seconds=120)
        then = pods.wait(lambda now: all_run(now, 5, RENAMED), "five others run", story=member.story)
        assert not first.keys() & then.keys()
        assert {0} == {state(found, found["spec"]["containers"][0]["name"])["restartCount"] for found in then.values()}
        kubectl("delete", "deployment", "web")
        pods.wait(lambda now: not now, "all are gone", story=member.story)
        assert {} == member.containerd.tasks()


def test_a_drained_node_is_empty_and_takes_pods_again_when_it_is_uncordoned(member: ClusterAgent) -> None:
    kubectl = member.plane.kubectl
    with member.watch(PODS, labelSelector="app=guest") as pods:
        kubectl("create", "deployment", "guest", f"--image={images.WEB}", "--replicas=3")
        before = pods.wait(lambda now: all_run(now, 3), "three pods run", story=member.story)
        kubectl("drain", member.name, "--timeout=60s", seconds=90)
        assert {} == member.containerd.tasks()
        assert {""} == {found["spec"].get("nodeName", "") for found in kubectl.get("pods", "-lapp=guest")["items"]}
        kubectl("uncordon", member.name)
        after = pods.wait(lambda now: all_run(now, 3), "three others run", story=member.story)
        assert not before.keys() & after.keys()


def test_a_pod_object_goes_only_after_its_container_and_tells_how_that_ended(member: ClusterAgent) -> None:
    kubectl = member.plane.kubectl
    with member.watch(PODS) as pods, member.containerd.events() as events:  # type: ignore[attr-defined]
        kubectl(
            "create", "-f-", manifests=pod("gentle", container("c", "trap", "3000"), terminationGracePeriodSeconds=30)
        )
        running = pods.wait(lambda now: all(map(is_ready, now.values())) and bool(now), "it runs", story=member.story)
        (identity,) = ids(running["gentle"])
        await_that(lambda: "waiting" in member.command("logs", "gentle").stdout, 60, member.story)  # deaf until then
        kubectl("delete", "pod", "gentle")
        pods.wait(lambda now: not now, "it is gone")
        gone = next(change for change in pods.changes if change.kind == "DELETED")
        ended = state(gone.object, "c")["state"]["terminated"]
        # It ended by itself, inside its grace, and that is the last that was told of it.
        assert (0, "Completed") == (ended["exitCode"], ended["reason"])
        assert ("Succeeded", 0) == (
            gone.object["status"]["phase"],
            gone.object["metadata"]["deletionGracePeriodSeconds"],
        )
        (exit_event,) = events.wait_for("/tasks/exit", identity)
        assert exit_event.when < gone.when


def test_a_pod_deleted_by_force_goes_at_once_and_its_container_follows(member: ClusterAgent) -> None:
    kubectl = member.plane.kubectl
    kubectl("create", "-f-", manifests=pod("deaf", container("c", "stubborn"), terminationGracePeriodSeconds=3600))
    with member.watch(PODS) as pods:
        pods.wait(lambda now: all(map(is_ready, now.values())) and bool(now), "it runs", story=member.story)
        kubectl("delete", "pod", "deaf", "--force", "--grace-period=0")
        pods.wait(lambda now: not now, "it is gone")
    await_that(lambda: not member.containerd.tasks(), 60, member.story)


def test_a_pod_that_takes_the_name_of_one_deleted_by_force_is_another_pod(member: ClusterAgent) -> None:
    kubectl = member.plane.kubectl
    manifest = pod("twice", container("c", "trap", "1500"), terminationGracePeriodSeconds=30)
    with member.watch(PODS) as pods:
        kubectl("create", "-f-", manifests=manifest)
        first = pods.wait(lambda now: is_ready(now.get("twice", {})), "it runs", story=member.story)["twice"]
        kubectl("delete", "pod", "twice", "--force", "--grace-period=0")
        kubectl("create", "-f-", manifests=manifest)

        def another(now: Objects) -> bool:
            found = now.get("twice", first)
            return found["metadata"]["uid"] != first["metadata"]["uid"] and is_ready(found)

        second = pods.wait(another, "another runs", story=member.story)["twice"]
    assert ids(first) != ids(second)
    assert 0 == state(second, "c")["restartCount"]
    await_that(lambda: 2 == len(member.containerd.tasks()), 60, member.story)
    assert set(ids(second)) < set(member.containerd.tasks())


def test_a_changed_image_restarts_the_container_in_the_same_pod(member: ClusterAgent) -> None:
    with member.watch(PODS) as pods:
        member.plane.kubectl("create", "-f-", manifests=pod("web", {"name": "s", "image": images.WEB}))
        before = pods.wait(lambda now: is_ready(now.get("web", {})), "it runs", story=member.story)["web"]
        member.plane.kubectl("set", "image", "pod/web", f"s={RENAMED}")

        def restarted(now: Objects) -> bool:
            return is_ready(now["web"]) and state(now["web"], "s")["restartCount"] == 1

        after = pods.wait(restarted, "it runs again", story=member.story)["web"]
        assert before["metadata"]["uid"] == after["metadata"]["uid"]
        assert before["status"]["podIP"] == after["status"]["podIP"]
        assert ids(before) != ids(after)


def test_a_job_completes(member: ClusterAgent) -> None:
    kubectl = member.plane.kubectl
    kubectl("create", "job", "once", f"--image={images.TESTPROG}", "--", "/bin/testprog", "exit", "0", "500")
    kubectl("wait", "--for=condition=complete", "job/once", "--timeout=60s", seconds=90)
    assert 1 == kubectl.get("job", "once")["status"]["succeeded"]
    kubectl("delete", "job", "once", "--wait=false")


def test_a_pod_speaks_to_the_api_server_with_its_own_token(member: ClusterAgent, tmp_path: Path) -> None:
    plane = member.plane
    with member.watch(PODS) as pods:
        script = "cat /var/run/secrets/kubernetes.io/serviceaccount/token"
        plane.kubectl("create", "-f-", manifests=pod("known", shell("c", script), restartPolicy="Never"))
        pods.wait(lambda now: phase(now.get("known", {})) == "Succeeded", "it has read its token", story=member.story)
    (log,) = member.pod_logs.glob("default_known_*/c/0.log")
    # A container's log in the CRI's format: time, stream, whether the line is whole, and the line.
    token = "".join(line.split(" ", 3)[3] for line in log.read_text().splitlines())
    user = write_kubeconfig(tmp_path / "pod", plane.url, plane.authority.certificate, token)
    told = json.loads(plane.kubectl_as(user)("auth", "whoami", "--output=json"))["status"]["userInfo"]
    assert "system:serviceaccount:default:default" == told["username"]
    assert ["known"] == told["extra"]["authentication.kubernetes.io/pod-name"]


def test_a_deleted_mirror_comes_back_and_its_static_pod_does_not_notice(member: ClusterAgent) -> None:
    mirror = f"web-{member.name}"
    with member.watch(PODS) as pods:
        member.put(pod("web", container("s", "serve", "8080")))
        shown = pods.wait(lambda now: is_ready(now.get(mirror, {})), "the mirror is Ready", story=member.story)[mirror]
        assert ["Node"] == [owner["kind"] for owner in shown["metadata"]["ownerReferences"]]
        before = member.containerd.tasks()
        member.plane.kubectl("delete", "pod", mirror, "--wait=false")

        def another(now: Objects) -> bool:
            found = now.get(mirror, shown)
            return found["metadata"]["uid"] != shown["metadata"]["uid"] and is_ready(found)

        pods.wait(another, "another mirror is Ready", story=member.story)
        assert before == member.containerd.tasks()
        member.take("web")
        pods.wait(lambda now: mirror not in now, "the mirror goes with its pod", story=member.story)
    await_that(lambda: not member.containerd.tasks(), 60, member.story)


def test_a_readiness_gate_holds_and_what_others_say_of_a_pod_stays(member: ClusterAgent) -> None:
    kubectl = member.plane.kubectl
    gates = {"readinessGates": [{"conditionType": "example.com/gate"}]}
    with member.watch(PODS) as pods:
        kubectl("create", "-f-", manifests=pod("gated", container("s", "serve", "8080"), **gates))
        ready = pods.wait(
            lambda now: condition(now.get("gated", {}), "ContainersReady") == "True", "its containers are ready"
        )["gated"]
        assert "False" == condition(ready, "Ready")
        said = '{"status": {"conditions": [%s]}}'
        both = '{"type": "example.com/gate", "status": "True"}, {"type": "example.com/other", "status": "Unknown"}'
        kubectl("patch", "pod", "gated", "--subresource=status", f"--patch={said % both}")
        pods.wait(lambda now: is_ready(now["gated"]), "it is Ready", story=member.story)
        network.ask(ready["status"]["podIP"], 8080, "/exit/1")
        again = pods.wait(
            lambda now: is_ready(now["gated"]) and state(now["gated"], "s")["restartCount"] == 1,
            "it is Ready after a restart",
            story=member.story,
        )["gated"]
        assert ["True", "Unknown"] == [condition(again, f"example.com/{name}") for name in ("gate", "other")]
