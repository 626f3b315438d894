"""Static pods on systemd's cgroup driver and cgroup v2, and what the death of the kubelet's process does to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from live.kit.daemon import await_that
from live.kit.manifests import container, pod
from vm.kit.node import WAIT_SECONDS_MAX, container_id, restarts

if TYPE_CHECKING:
    from vm.kit.node import Node

MIB = 1024 * 1024
LIMITS = {"requests": {"cpu": "100m"}, "limits": {"cpu": "500m", "memory": "64Mi"}}


def web(name: str) -> dict[str, object]:
    """A Burstable pod with limits that answers at port 8080."""
    return pod(name, container("main", "serve", "8080", resources=LIMITS))


def test_static_pod_runs_in_systemd_slices_with_its_limits(node: Node) -> None:
    node.configure()
    node.apply(web("web"))
    node.start()

    served = node.await_running("web")["web"]
    machine = node.machine
    assert 0 == machine.attempt(f"curl --silent --fail http://{served['status']['podIP']}:8080/").returncode

    uid = served["metadata"]["annotations"]["kubernetes.io/config.hash"]
    slices = f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid.replace('-', '_')}.slice"
    scope = f"/sys/fs/cgroup/{slices}/cri-containerd-{container_id(served)}.scope"
    for cgroup in (scope, f"/sys/fs/cgroup/{slices}"):
        assert f"{64 * MIB}\n50000 100000\n" == machine.run(f"cd {cgroup} && cat memory.max cpu.max")
    unit = slices.rpartition("/")[2]
    assert f"{64 * MIB}\n" == machine.run(f"systemctl show -P MemoryMax {unit}")


def test_killed_kubelet_comes_back_and_leaves_containers_alone(node: Node) -> None:
    node.configure()
    node.apply(web("web"), web("other"))
    node.start()
    names = ("web", "other")
    before = node.await_running(*names)
    machine = node.machine
    tasks = machine.run("ctr -n k8s.io tasks ls -q | sort")
    process = machine.run(f"systemctl show -P MainPID {node.unit}")

    machine.run(f"systemctl kill --signal=KILL {node.unit}")

    def is_back() -> bool:
        main = machine.run(f"systemctl show -P MainPID {node.unit}")
        return main not in (process, "0\n") and bool(node.pods())

    await_that(is_back, WAIT_SECONDS_MAX, node.log, every_seconds=2)
    after = node.await_running(*names)
    assert tasks == machine.run("ctr -n k8s.io tasks ls -q | sort")
    assert [container_id(before[name]) for name in names] == [container_id(after[name]) for name in names]
    assert [0, 0] == [restarts(after[name]) for name in names]
