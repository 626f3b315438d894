"""What becomes of single containers of a pod through a real API server: debugging ones that join later, hooks cut short
by a second deletion or by a killed agent, restarts by rules, ends by a deadline, pods that are not to run here or yet.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from live.kit import images, kernel
from live.kit.cluster_agent import EVENTS, PODS, ClusterAgent
from live.kit.daemon import await_that
from live.kit.manifests import container, pod, shell, state
from live.kit.watched import is_ready

if TYPE_CHECKING:
    from pathlib import Path

    from live.kit.watched import Objects

pytestmark = pytest.mark.slow


def ready(name: str) -> Any:
    """Whether the pod of that name is."""
    return lambda now: is_ready(now.get(name, {}))


def phase(found: dict[str, Any]) -> str:
    """How far a pod is; nothing where there is none."""
    return str(found.get("status", {}).get("phase", ""))


def printed(member: ClusterAgent, name: str, of: str, attempt: int = 0) -> str:
    """What a container of a pod printed."""
    paths = list(member.pod_logs.glob(f"default_{name}_*/{of}/{attempt}.log"))
    return "".join(line.split(" ", 3)[3] + "\n" for path in paths for line in path.read_text().splitlines())


def shared(member: ClusterAgent) -> tuple[Path, dict[str, Any], list[dict[str, Any]]]:
    """A file that containers and tests see: its path, a container's mount of its directory, the pod's volumes."""
    directory = member.directory / "shared"
    directory.mkdir()
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    return directory / "order", mount, [{"name": "v", "hostPath": {"path": str(directory)}}]


def test_status_shows_resources_and_user_of_a_container(member: ClusterAgent) -> None:
    """As upstream's does of the same pod."""
    given = {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}}
    one = container("main", "serve", "8080", resources=given, securityContext={"runAsUser": 1000, "runAsGroup": 100})
    with member.watch(PODS) as pods:
        member.plane.kubectl("create", "-f-", manifests=pod("web", one, securityContext={"supplementalGroups": [7]}))
        status = pods.wait(ready("web"), "it runs", story=member.story)["web"]["status"]
    (shown,) = status["containerStatuses"]

    assert (given, given["requests"]) == (shown["resources"], shown["allocatedResources"])
    assert (given, given["requests"]) == (status["resources"], status["allocatedResources"])
    assert (1000, 100) == (shown["user"]["linux"]["uid"], shown["user"]["linux"]["gid"])
    assert 7 in shown["user"]["linux"]["supplementalGroups"]


def test_a_debugging_container_joins_a_running_pod_and_sees_its_targets_processes(member: ClusterAgent) -> None:
    kubectl = member.plane.kubectl
    with member.watch(PODS) as pods:
        kubectl("create", "-f-", manifests=pod("web", container("main", "serve", "8080")))
        before = pods.wait(ready("web"), "it runs", story=member.story)["web"]
        script = "cat /proc/1/comm; sleep 1000"
        words = [f"--image={images.BUSYBOX}", "--target=main", "--container=look", "--attach=false"]
        kubectl("debug", "web", *words, "--", "sh", "-c", script)
        kubectl(
            "debug",
            "web",
            f"--image={images.BUSYBOX}",
            "--container=alone",
            "--attach=false",
            "--arguments-only",
            "--",
            "cat",
            "/proc/1/comm",
        )

        def joined(now: Objects) -> bool:
            look, alone = (state(now["web"], name).get("state", {}) for name in ("look", "alone"))
            return "running" in look and "terminated" in alone

        after = pods.wait(joined, "one looks and one has ended", story=member.story)["web"]
        assert before["status"]["containerStatuses"] == after["status"]["containerStatuses"]
        assert is_ready(after)
        await_that(lambda: printed(member, "web", "look") != "", 60, member.story)
        assert ("testprog\n", "cat\n") == (printed(member, "web", "look"), printed(member, "web", "alone"))
        kubectl("debug", "web", f"--image={images.BUSYBOX}", "--container=lost", "--target=main", "--attach=false")
        pods.wait(
            lambda now: "terminated" in state(now["web"], "lost").get("state", {}), "a third ends", story=member.story
        )
        # Though nothing of the pod was privileged when its sandbox was made.
        words = ["--profile=sysadmin", "--container=may", "--attach=false"]
        kubectl("debug", "web", f"--image={images.BUSYBOX}", *words, "--", "grep", "CapEff", "/proc/1/status")
        pods.wait(
            lambda now: "terminated" in state(now["web"], "may").get("state", {}), "a fourth ends", story=member.story
        )
        assert all_capabilities() in printed(member, "web", "may")
        assert before["status"]["containerStatuses"] == pods.now["web"]["status"]["containerStatuses"]
        # Ended ones stay what they are: they are never started again.
        assert 0 == state(pods.now["web"], "alone")["restartCount"]
        kubectl("delete", "pod", "web")
        pods.wait(lambda now: not now, "all of it goes", story=member.story)
    assert {} == member.containerd.tasks()


def all_capabilities() -> str:
    """As this kernel writes the set of them all: this process has them."""
    return re.findall(r"CapBnd:\s*(\w+)", Path("/proc/1/status").read_text())[0]


def test_a_second_deletion_with_less_grace_cuts_a_hook(member: ClusterAgent) -> None:
    kubectl = member.plane.kubectl
    order, mount, volumes = shared(member)
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "echo bye >> /v/order; sleep 1000"]}}}
    script = "trap 'echo term >> /v/order; exit 0' TERM; while :; do sleep 0.1; done"
    main = shell("main", script, lifecycle=hook, **mount)
    with member.watch(PODS) as pods:
        kubectl("create", "-f-", manifests=pod("slow", main, volumes=volumes, terminationGracePeriodSeconds=3000))
        pods.wait(ready("slow"), "it runs", story=member.story)
        kubectl("delete", "pod", "slow", "--wait=false")
        await_that(order.exists, 60, member.story)
        kubectl("delete", "pod", "slow", "--grace-period=10", "--wait=false")
        pods.wait(lambda now: not now, "it is gone", story=member.story)
    assert ["bye", "bye", "term"] == order.read_text().split()


def test_hook_of_a_killed_agent_is_run_again_by_the_next(member: ClusterAgent) -> None:
    kubectl = member.plane.kubectl
    order, mount, volumes = shared(member)
    script = "echo begin >> /v/order; test -e /v/go || sleep 1000; echo end >> /v/order"
    hook = {"preStop": {"exec": {"command": ["sh", "-c", script]}}}
    wait = "trap 'echo term >> /v/order; exit 0' TERM; while :; do sleep 0.1; done"
    with member.watch(PODS) as pods:
        main = shell("main", wait, lifecycle=hook, **mount)
        kubectl("create", "-f-", manifests=pod("slow", main, volumes=volumes, terminationGracePeriodSeconds=600))
        pods.wait(ready("slow"), "it runs", story=member.story)
        kubectl("delete", "pod", "slow", "--wait=false")
        await_that(order.exists, 60, member.story)
        member.kill()
        (order.parent / "go").touch()
        member.start()
        pods.wait(lambda now: not now, "it is gone", story=member.story)
    assert ["begin", "begin", "end", "term"] == order.read_text().split()


def test_a_rule_restarts_a_container_that_is_never_restarted_otherwise(member: ClusterAgent) -> None:
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
    once = "test -e /v/once && exit 7; touch /v/once; exit 42"
    _, mount, volumes = shared(member)
    main = shell("main", once, restartPolicy="Never", restartPolicyRules=[rule], **mount)
    with member.watch(PODS) as pods:
        member.plane.kubectl("create", "-f-", manifests=pod("ruled", main, volumes=volumes, restartPolicy="Never"))
        found = pods.wait(lambda now: phase(now.get("ruled", {})) == "Failed", "it has failed", story=member.story)
        ended = state(found["ruled"], "main")
        assert (1, 7) == (ended["restartCount"], ended["state"]["terminated"]["exitCode"])


def test_an_exit_may_restart_all_containers_and_run_init_containers_again(member: ClusterAgent) -> None:
    order, mount, volumes = shared(member)
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}
    script = "echo main >> /v/order; test $(grep -c main /v/order) = 1 && { sleep 1; exit 88; }; sleep 1000"
    main = shell("main", script, restartPolicy="Never", restartPolicyRules=[rule], **mount)
    manifest = pod(
        "again",
        main,
        container("other", "trap"),
        initContainers=[shell("first", "echo first >> /v/order", **mount)],
        volumes=volumes,
        restartPolicy="Never",
    )
    with member.watch(PODS) as pods:
        member.plane.kubectl("create", "-f-", manifests=manifest)
        found = pods.wait(
            lambda now: is_ready(now.get("again", {})) and state(now["again"], "main")["restartCount"] == 1,
            "it runs again",
            story=member.story,
        )["again"]
    await_that(lambda: ["first", "main", "first", "main"] == order.read_text().split(), 60, order.read_text)
    assert 1 == state(found, "other")["restartCount"]


def test_a_pod_that_starts_over_again_and_again_backs_off(member: ClusterAgent) -> None:
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}
    main = shell("main", "exit 88", restartPolicy="Never", restartPolicyRules=[rule])
    all_wait = {"main": "CrashLoopBackOff", "other": "RestartingAllContainers"}

    def reasons(found: dict[str, Any]) -> dict[str, str]:
        shown = found.get("status", {}).get("containerStatuses", ())
        return {one["name"]: one["state"].get("waiting", {}).get("reason", "") for one in shown}

    with member.watch(PODS) as pods:
        member.plane.kubectl("create", "-f-", manifests=pod("round", main, container("other", "trap")))
        found = pods.wait(lambda now: reasons(now.get("round", {})) == all_wait, "it backs off", story=member.story)
        ended = state(found["round"], "main")
        assert 88 == ended["lastState"]["terminated"]["exitCode"]
        pods.wait(
            lambda now: state(now["round"], "main")["restartCount"] > ended["restartCount"],
            "it starts over again",
            story=member.story,
        )


def test_a_pod_is_failed_when_its_deadline_is_over_and_is_told_so(member: ClusterAgent) -> None:
    with member.watch(PODS) as pods, member.watch(EVENTS) as events:
        manifest = pod("brief", container("c", "trap"), activeDeadlineSeconds=5)
        member.plane.kubectl("create", "-f-", manifests=manifest)
        found = pods.wait(lambda now: phase(now.get("brief", {})) == "Failed", "it has failed", story=member.story)
        assert "DeadlineExceeded" == found["brief"]["status"]["reason"]
        events.wait(lambda told: any(event["reason"] == "DeadlineExceeded" for event in told.values()), "it is told so")
    await_that(lambda: not member.containerd.tasks(), 60, member.story)


def test_a_pod_of_another_system_is_refused_and_a_gated_one_waits_for_its_gate(member: ClusterAgent) -> None:
    kubectl = member.plane.kubectl
    with member.watch(PODS) as pods:
        foreign = pod("foreign", container("c", "trap"), os={"name": "windows"}, nodeName=member.name)
        kubectl("create", "-f-", manifests=foreign)
        kubectl(
            "create", "-f-", manifests=pod("gated", container("c", "trap"), schedulingGates=[{"name": "example.com/g"}])
        )
        found = pods.wait(lambda now: phase(now.get("foreign", {})) == "Failed", "it is refused", story=member.story)
        assert "PodOSNotSupported" == found["foreign"]["status"]["reason"]
        assert {} == member.containerd.tasks()
        kubectl("patch", "pod", "gated", "--type=json", '--patch=[{"op": "remove", "path": "/spec/schedulingGates"}]')
        pods.wait(ready("gated"), "it runs", story=member.story)


def test_a_failed_containers_last_words_are_its_message_where_it_wishes_so(member: ClusterAgent) -> None:
    wish = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    cut = "yes 0123456789 | head -c 9000 > /dev/termination-log; exit 1"
    containers = [
        shell("said", "echo from the log; exit 3", **wish),
        shell("wrote", "echo from the file > /dev/termination-log; echo from the log; exit 3", **wish),
        shell("well", "echo from the log", **wish),
        shell("much", cut),
    ]
    with member.watch(PODS) as pods:
        member.plane.kubectl("create", "-f-", manifests=pod("last", *containers, restartPolicy="Never"))
        found = pods.wait(lambda now: phase(now.get("last", {})) == "Failed", "it has failed", story=member.story)[
            "last"
        ]
    words = {one["name"]: one["state"]["terminated"].get("message", "") for one in found["status"]["containerStatuses"]}
    much = words.pop("much")
    assert {"said": "from the log\n", "wrote": "from the file\n", "well": ""} == words
    # Twelve KiB are shared by four containers.
    assert 12 * 1024 // 4 == len(much)


def test_a_pod_runs_in_the_class_it_names_and_waits_for_one_that_is_not_there(member: ClusterAgent) -> None:
    kubectl = member.plane.kubectl

    def made(name: str) -> None:
        named = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}}
        kubectl("create", "-f-", manifests={**named, "handler": "second", "overhead": {"podFixed": {"memory": "16Mi"}}})

    made("there")
    try:
        with member.watch(PODS) as pods, member.watch(EVENTS) as events:
            limited = container("c", "trap", resources={"limits": {"memory": "32Mi", "cpu": "100m"}})
            kubectl("create", "-f-", manifests=pod("classy", limited, runtimeClassName="there"))
            found = pods.wait(ready("classy"), "it runs", story=member.story)["classy"]
            assert (32 + 16) * 1024**2 == kernel.memory_limit(member.containerd, f"pod{found['metadata']['uid']}")
            (box,) = (
                one for one in member.containerd.cri.call("ListPodSandbox").items if one.metadata.name == "classy"
            )
            assert "second" == box.runtime_handler
            kubectl("delete", "runtimeclass", "there")
            # The API server refuses a pod of a class that is not there, so this one is a static pod.
            member.put(pod("lost", container("c", "trap"), runtimeClassName="later"))
            told = 'Failed to create pod sandbox: runtimeclass.node.k8s.io "later" not found'
            events.wait(lambda now: any(told in one["message"] for one in now.values()), "it is told", 60, member.story)
            made("later")
            pods.wait(ready(f"lost-{member.name}"), "it runs, too", story=member.story)
            assert is_ready(pods.now["classy"])
    finally:
        kubectl("delete", "runtimeclass", "--all")
