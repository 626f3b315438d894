"""Static pods when their machine reboots or loses its power: how often each container starts, and what is reported.

Every container writes a line to a file of the machine and flushes it when it starts, so a second run cannot be missed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from live.kit.manifests import pod, shell, state
from vm.kit.node import restarts

if TYPE_CHECKING:
    from vm.kit.node import Node, Pods

PERIODS = {"shutdownGracePeriod": "60s", "shutdownGracePeriodCriticalPods": "20s"}
STARTS = "/var/lib/starts"
UNTIL_TERM = "trap 'exit 0' TERM; while :; do sleep 0.1; done"


def counted(name: str, restart_policy: str, script: str = UNTIL_TERM) -> dict[str, Any]:
    """A pod of one container that writes down its start and then runs a script."""
    mounts = [{"name": "starts", "mountPath": STARTS}]
    main = shell("main", f"echo started >>{STARTS}/{name}; sync; {script}", volumeMounts=mounts)
    volume = {"name": "starts", "hostPath": {"path": STARTS, "type": "DirectoryOrCreate"}}
    return pod(name, main, restartPolicy=restart_policy, terminationGracePeriodSeconds=30, volumes=[volume])


def starts(node: Node, name: str) -> int:
    """Return how often the pod's container was started on the machine."""
    return node.machine.run(f"cat {STARTS}/{name}").count("started")


def last_end(pod: dict[str, Any]) -> tuple[str, int]:
    """Return reason and exit code of the container's previous run."""
    ended = state(pod, "main")["lastState"]["terminated"]
    return ended["reason"], ended["exitCode"]


def is_back(pods: Pods, name: str) -> bool:
    """True if the pod runs, after a restart."""
    return name in pods and bool(state(pods[name], "main").get("state", {}).get("running")) and restarts(pods[name]) > 0


def test_reboot_with_grace_ends_pods_in_order_and_repeats_none_that_succeeded(node: Node) -> None:
    node.configure(**PERIODS)
    node.apply(counted("once", "Never"), counted("failing", "OnFailure"), counted("always", "Always"))
    node.start()
    node.await_running("once", "failing", "always")

    node.machine.reboot()
    pods = node.await_pods(
        lambda pods: is_back(pods, "always") and all("Succeeded" == phase(pods, name) for name in ("once", "failing"))
    )

    assert {"once": 1, "failing": 1, "always": 2} == {name: starts(node, name) for name in pods}
    assert {"once": 0, "failing": 0, "always": 1} == {name: restarts(pod) for name, pod in pods.items()}
    assert ("Completed", 0) == last_end(pods["always"])


def test_reboot_without_grace_restarts_each_pod_once(node: Node) -> None:
    node.configure()
    node.apply(counted("once", "Never"), counted("always", "Always"))
    node.start()
    node.await_running("once", "always")

    node.machine.reboot()
    pods = node.await_pods(lambda pods: is_back(pods, "always") and phase(pods, "once") in ("Succeeded", "Failed"))

    assert {"once": 1, "always": 2} == {name: starts(node, name) for name in pods}
    assert 1 == restarts(pods["always"])


def test_cut_power_restarts_each_pod_once(node: Node) -> None:
    """Also those that started so shortly before that the runtime's record of it is lost."""
    node.configure()
    node.apply(counted("once", "Never"))
    node.start()
    node.await_running("once")
    node.machine.run("sync && mount -o remount,commit=300 /")  # from here on, time alone flushes nothing
    names = ("first", "second", "third")
    node.apply(*(counted(name, "Always") for name in names))
    node.await_running(*names)

    node.machine.cut_power()
    node.machine.start()
    pods = node.await_pods(
        lambda pods: all(is_back(pods, name) for name in names) and phase(pods, "once") in ("Succeeded", "Failed")
    )

    assert {"once": 1, "first": 2, "second": 2, "third": 2} == {name: starts(node, name) for name in pods}
    assert [1, 1, 1] == [restarts(pods[name]) for name in names]


def phase(pods: Pods, name: str) -> str:
    """Return a pod's phase; empty while the kubelet does not know the pod."""
    found: str = pods.get(name, {}).get("status", {}).get("phase", "")
    return found
