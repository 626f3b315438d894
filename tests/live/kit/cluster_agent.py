"""The agent under test as a node of a real cluster: the process of ``agent.py``, joined to a control plane.

    start ─► (token ─► certificate) ─► registered ─► Ready          what `watch` tells, and `node`

Called by the live tests that are about a cluster. What an operator would see is asked of the API server, as an
operator; what really runs is asked of the runtime. Each agent is a node of another name, so that nothing the cluster
still has to say of the last one reaches the next.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from .agent import Agent
from .network import free_port
from .watched import Watched, is_ready

if TYPE_CHECKING:
    from .control_plane import ControlPlane
    from .daemon import Daemon

READY_SECONDS_MAX = 90.0
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"
NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"

_numbers = itertools.count(1)


class ClusterAgent(Agent):
    """Owns one agent process, its node's name and the port of its API, which believes the cluster's authority.
    ``bootstrap``: it comes with a token and not with a certificate."""

    def __init__(
        self, containerd: Daemon, plane: ControlPlane, *words: str, bootstrap: bool = False, **configuration: object
    ) -> None:
        self.port = free_port()
        believes = {"x509": {"clientCAFile": str(plane.authority.certificate)}}
        super().__init__(containerd, **{"port": self.port, "authentication": believes} | configuration)
        self.plane = plane
        self.name = f"live-{next(_numbers)}"
        if bootstrap:
            self.kubeconfig = self.directory / "kubeconfig"
            known_by = [f"--bootstrap-kubeconfig={plane.bootstrap_kubeconfig()}", f"--kubeconfig={self.kubeconfig}"]
        else:
            self.kubeconfig = plane.node_kubeconfig(self.name)
            known_by = [f"--kubeconfig={self.kubeconfig}"]
        self.words = [f"--hostname-override={self.name}", *known_by, *words]

    def node(self) -> dict[str, Any]:
        """This node's object, as an operator sees it. Raises KubectlFailed where there is none."""
        return self.plane.kubectl.get("node", self.name)

    def watch(self, collection: str, **selection: str) -> Watched:
        """A watch of `PODS` or `EVENTS` (of the namespace "default"), `NODES` or `LEASES`, to be entered. ``selection``
        are the API's parameters; nodes and leases are this node's alone."""
        if collection in (NODES, LEASES):
            selection["fieldSelector"] = f"metadata.name={self.name}"
        words = "&".join(["watch=1", *(f"{key}={value}" for key, value in selection.items())])
        return Watched(self.plane.kubectl.command("get", "--raw", f"{collection}?{words}"))

    def wait_ready(self, seconds: float = READY_SECONDS_MAX) -> dict[str, Any]:
        """The node once it is ready. Raises TimeoutError with the agent's log when it does not get there."""
        with self.watch(NODES) as nodes:
            there = nodes.wait(lambda now: any(map(is_ready, now.values())), "the node is Ready", seconds, self.story)
            return there[self.name]
