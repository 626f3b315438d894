"""A kubelet on a virtual machine: the agent from its package, or upstream's, which is what the agent is compared with.

Both read the same configuration and the same directory of static pods, and serve their pods at the read-only port.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar, Final

from live.kit import images, packages, places
from live.kit.daemon import await_that

if TYPE_CHECKING:
    from collections.abc import Callable

    from .machine import Machine

CONFIGURATION: Final = "/etc/trikubelet/config.yaml"
MANIFESTS: Final = "/etc/kubernetes/manifests"
READ_ONLY_PORT: Final = 10255
WAIT_SECONDS_MAX: Final = 400.0
_FIELDS: Final = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
    "staticPodPath": MANIFESTS,
    "readOnlyPort": READ_ONLY_PORT,
    "authentication": {"webhook": {"enabled": False}},  # there is no API server to ask
    "authorization": {"mode": "AlwaysAllow"},
}

Pods = dict[str, dict[str, Any]]
"""The pods of a node by their names in the manifests."""


class Node:
    """The agent as its package installs it. Owns the unit, the configuration and the manifests on the machine."""

    unit: ClassVar[str] = "trikubelet"

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    @classmethod
    def install(cls, machine: Machine) -> None:
        """Put the package on a machine. Raises NotInstalled if it was not built."""
        machine.send(packages.package("trikubelet", "deb"), "/root/trikubelet.deb")
        machine.run("apt-get install -y /root/trikubelet.deb")

    def configure(self, **fields: object) -> None:
        """Write the configuration; ``fields`` are its own, as in YAML."""
        self.machine.write(CONFIGURATION, json.dumps(_FIELDS | fields))

    def start(self) -> None:
        """Start the unit, also at every later boot; return when it is ready."""
        self.machine.run(f"systemctl enable --now {self.unit}")

    def apply(self, *pods: dict[str, Any]) -> None:
        """Put manifests where the kubelet looks for static pods."""
        for pod in pods:
            self.machine.write(f"{MANIFESTS}/{pod['metadata']['name']}.yaml", json.dumps(pod))

    def pods(self) -> Pods:
        """Return the pods as the kubelet serves them; none while it does not answer."""
        asked = self.machine.attempt(f"curl --silent --fail --max-time 60 http://127.0.0.1:{READ_ONLY_PORT}/pods")
        if asked.returncode:
            return {}
        suffix = "-node"  # a static pod's name ends with the node's
        items = json.loads(asked.stdout)["items"] or ()
        return {item["metadata"]["name"].removesuffix(suffix): item for item in items}

    def await_pods(self, satisfied: Callable[[Pods], bool]) -> Pods:
        """Return the pods once they satisfy a condition. Raises RuntimeError with their statuses and the log's end."""
        found: Pods = {}

        def looked() -> bool:
            nonlocal found
            found = self.pods()
            return satisfied(found)

        def complaint() -> str:
            statuses = {name: pod.get("status") for name, pod in found.items()}
            return f"{json.dumps(statuses, indent=1)}\n{self.log()[-4000:]}"

        await_that(looked, WAIT_SECONDS_MAX, complaint, every_seconds=2)
        return found

    def await_running(self, *names: str) -> Pods:
        """Return the pods once those of these names are ready."""
        return self.await_pods(lambda pods: all(name in pods and is_ready(pods[name]) for name in names))

    def log(self) -> str:
        """Return the unit's journal of this boot."""
        return self.machine.run(f"journalctl --no-pager -b -u {self.unit}")


class UpstreamNode(Node):
    """Upstream's kubelet, built with the control plane of the live tests."""

    unit = "kubelet"

    @classmethod
    def install(cls, machine: Machine) -> None:
        """Put the kubelet and a unit like that of its packages on a machine. Raises NotInstalled."""
        machine.send(places.control_plane() / "kubelet", "/usr/local/bin/kubelet")
        machine.run(f"chmod 755 /usr/local/bin/kubelet && mkdir -p {MANIFESTS}")
        service = f"ExecStart=/usr/local/bin/kubelet --config={CONFIGURATION} --v=2\nRestart=always\nKillMode=process"
        unit = f"[Unit]\nAfter=containerd.service\n[Service]\n{service}\n[Install]\nWantedBy=multi-user.target\n"
        machine.write("/etc/systemd/system/kubelet.service", unit)


KUBELETS: Final = {"agent": Node, "upstream": UpstreamNode}


def import_images(machine: Machine) -> None:
    """Give the live tests' images to the machine's containerd. Raises NotInstalled."""
    machine.send(images.imported(), "/root/images.tar")
    machine.run("ctr -n k8s.io images import --all-platforms /root/images.tar && rm /root/images.tar")


def prepare(machine: Machine, kind: type[Node]) -> None:
    """Make a machine that is switched off one with images and a kubelet that is installed and not started."""
    machine.start()
    import_images(machine)
    kind.install(machine)
    machine.power_off()


def is_ready(pod: dict[str, Any]) -> bool:
    """True if the pod has the condition Ready."""
    conditions = pod["status"].get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def restarts(pod: dict[str, Any]) -> int:
    """Return the restart count of the pod's only container."""
    (status,) = pod["status"]["containerStatuses"]
    count: int = status["restartCount"]
    return count


def container_id(pod: dict[str, Any]) -> str:
    """Return the id of the pod's only container at the runtime."""
    (status,) = pod["status"]["containerStatuses"]
    identity: str = status["containerID"]
    return identity.removeprefix("containerd://")
