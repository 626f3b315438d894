"""Fields of a KubeletConfiguration that no other live test is about, many at once: what a node of a cluster says of
itself by them, and what pods become by them on a real containerd.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from live.kit import kernel
from live.kit.agent import Agent
from live.kit.cluster_agent import ClusterAgent
from live.kit.daemon import await_that
from live.kit.manifests import pod, shell, state
from trikubelet.host.cgroups import read_hierarchies

if TYPE_CHECKING:
    from pathlib import Path

    from live.kit.containerd import Containerd
    from live.kit.control_plane import ControlPlane

pytestmark = pytest.mark.slow


def kib(amount: str) -> int:
    return int(amount.removesuffix("Ki"))


def test_a_node_is_as_its_configuration_says(containerd2: Containerd, control_plane: ControlPlane) -> None:
    settings: dict[str, Any] = {
        "enableControllerAttachDetach": True,
        "enforceNodeAllocatable": ["pods"],
        "evictionHard": {"memory.available": "100Mi"},
        "kubeReserved": {"memory": "128Mi"},
        "systemReserved": {"memory": "64Mi", "cpu": "100m"},
        "nodeStatusMaxImages": 1,
        "podsPerCore": 3,
        "providerID": "somewhere://else",
    }
    with ClusterAgent(containerd2, control_plane, **settings) as agent:
        node = agent.wait_ready()
        status = node["status"]
        assert "somewhere://else" == node["spec"]["providerID"]
        assert "true" == node["metadata"]["annotations"]["volumes.kubernetes.io/controller-managed-attach-detach"]
        assert 1 == len(status["images"])
        assert str(3 * int(status["capacity"]["cpu"])) == status["capacity"]["pods"]
        reserved = (128 + 64) * 1024
        for_pods = kib(status["capacity"]["memory"]) - reserved
        assert for_pods - 100 * 1024 == kib(status["allocatable"]["memory"])  # eviction's threshold is not to be had
        assert f"{int(status['capacity']['cpu']) * 1000 - 100}m" == status["allocatable"]["cpu"]
        assert [for_pods] == [int(one) // 1024 for one in kernel.told(containerd2, "kubepods/memory.", "max", "limit")]


def test_pods_are_as_the_configuration_says(containerd2: Containerd, tmp_path: Path) -> None:
    resolv_conf = tmp_path / "resolv.conf"
    resolv_conf.write_text("nameserver 192.0.2.53\n")
    settings: dict[str, Any] = {
        "allowedUnsafeSysctls": ["net.ipv4.tcp_fin*"],
        "cgroupDriver": "systemd",  # which is not the runtime's, and that is what counts
        "cpuCFSQuota": True,
        "cpuCFSQuotaPeriod": "50ms",
        "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
        "featureGates": {"CustomCPUCFSQuotaPeriod": True, "KubeletCrashLoopBackOffMax": True},
        "memoryThrottlingFactor": 0.5,
        "podLogsDir": str(tmp_path / "logs"),
        "podPidsLimit": 123,
        "resolvConf": str(resolv_conf),
        "seccompDefault": True,
    }
    script = (
        "grep Seccomp: /proc/self/status; cat /etc/resolv.conf; echo fin $(cat /proc/sys/net/ipv4/tcp_fin_timeout);"
        " cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.cfs_period_us"
        " 2>/dev/null; sleep 1000"
    )
    fin = {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_fin_timeout", "value": "33"}]}}
    with Agent(containerd2, **settings) as agent:
        half = {"resources": {"limits": {"cpu": "500m"}}}
        agent.put(pod("sees", shell("c", script, **half), dnsPolicy="Default", **fin))
        agent.put(pod("crashes", shell("c", "exit 3")))
        uid = agent.wait_phase("sees", "Running")["metadata"]["uid"]
        await_that(lambda: "50000" in agent.command("logs", "sees-live").stdout, 60, agent.story)
        lines = agent.command("logs", "sees-live").stdout.splitlines()
        told = "These settings have no effect in version 1 of cgroups, which is this machine's: memoryThrottlingFactor"
        assert (told in agent.log_path.read_text()) == (read_hierarchies().version == 1)
        (log,) = (tmp_path / "logs").glob(f"default_sees-live_{uid}/c/*.log")
        assert lines[0] in log.read_text()
        said = " ".join(lines).split()
        assert ("Seccomp:\t2", "nameserver 192.0.2.53", "fin 33") == (lines[0], lines[1], lines[2])
        assert "25000" in said
        assert "50000" in said
        assert ["123"] == kernel.told(containerd2, f"kubepods/burstable/pod{uid}/pids.", "max")
        # By default the sixth start would come after two and a half minutes.
        agent.wait(lambda pods: state(pods["crashes"], "c").get("restartCount", 0) >= 5, "five restarts", 60)
