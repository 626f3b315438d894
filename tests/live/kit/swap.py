"""One node whose kubelet is exchanged: the agent under test, and upstream's kubelet on the same directories.

    upstream ─ end ─► ours ─ end ─► upstream          the witness is the runtime: which processes run since when

Called by ``test_swap.py``. Both have the node's name, its kubeconfig, the root directory, the manifests, the logs and
the port of its API, as on a node where one package replaces the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from trikubelet.core.resize.checkpoint import read
from trikubelet.cri.v1 import api_pb2 as api
from trikubelet.model.pod_notes import NodeNote

from .cluster_agent import ClusterAgent
from .cri import Cri
from .upstream import UpstreamKubelet

if TYPE_CHECKING:
    from .containerd import Containerd
    from .control_plane import ControlPlane


class SwappedNode:
    """Owns the two programs of one node, of which one runs at a time. Use as a context manager: leaving it ends
    both."""

    def __init__(self, containerd: Containerd, plane: ControlPlane) -> None:
        self._cri: Cri = containerd.cri
        self.ours = ClusterAgent(containerd, plane)
        shared = {
            "port": self.ours.port,
            "staticPodPath": str(self.ours.manifests),
            "podLogsDir": str(self.ours.pod_logs),
        }
        self.upstream = UpstreamKubelet(containerd, plane, **shared)
        self.upstream.name = self.ours.name
        self.upstream.root = self.ours.root
        self.upstream.words = list(self.ours.words)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.ours.kill()
        self.upstream.kill()

    def change(self, before: ClusterAgent | None, after: ClusterAgent, *, killed: bool = False) -> None:
        """End one kubelet, as an operator does or (``killed``) as the kernel does, and start the other; returns when
        the node is ready."""
        if before is not None:
            if not killed:
                before.stop()
            before.kill()  # also gives back what upstream's changed of the machine
        after.start()
        after.wait_ready()

    def recorded(self) -> set[tuple[str, str]]:
        """The containers, by UID and name, in upstream's file of what they were made with. Ours writes it once a
        second."""
        pods = read(self.ours.root.joinpath(NodeNote.ACTUATED.value).read_bytes()).pods
        return {(uid, name) for uid, one in pods.items() for name in one.container_resources or ()}

    def started(self) -> dict[str, tuple[int, int]]:
        """When each container was started, and its attempt, by pod and container; the newest of each counts."""
        found: dict[str, tuple[int, int]] = {}
        for one in self._cri.call("ListContainers").containers:
            status: api.ContainerStatus = self._cri.call("ContainerStatus", container_id=one.id).status
            name = f"{status.labels['io.kubernetes.pod.name']}/{status.metadata.name}"
            found[name] = max(found.get(name, (0, 0)), (status.started_at, status.metadata.attempt))
        return found
