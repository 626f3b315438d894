"""Upstream's own kubelet as a node of a real cluster, in the agent's place: what the agent is measured beside.

Called by ``bench/cluster.py``. It is built with the control plane (``packaging/control-plane``) and started where the
agent would be, with the same configuration where the two have the same words; `DIFFERENCES` are what it needs besides.
It has no local API: what it did is asked of the API server, and its log tells the rest.
"""

from __future__ import annotations

import http.client
import subprocess
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .cluster_agent import ClusterAgent
from .instance import hierarchies
from .network import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .containerd import Containerd
    from .control_plane import ControlPlane

STANDARD_SOCKET: Final = Path("/run/containerd/containerd.sock")
"""Where its cAdvisor looks for containerd, and nowhere else."""
KERNEL: Final = tuple(
    Path("/proc/sys") / name
    for name in (
        "vm/overcommit_memory",
        "vm/panic_on_oom",
        "kernel/panic",
        "kernel/panic_on_oops",
        "kernel/keys/root_maxkeys",
        "kernel/keys/root_maxbytes",
    )
)
"""What it sets for the whole machine when it starts."""
DIFFERENCES: Final = {
    "containerRuntimeEndpoint": f"unix://{STANDARD_SOCKET}",
    "failCgroupV1": False,
    "failSwapOn": False,
    "makeIPTablesUtilChains": False,  # they would stay on the machine
    "oomScoreAdj": 0,  # see configuration.py
    "serializeImagePulls": False,
}


@contextmanager
def kernel_settings_kept() -> Iterator[None]:
    """Put the settings of `KERNEL` back at the end, as they are at the start."""
    before = {path: path.read_text() for path in KERNEL}
    try:
        yield
    finally:
        for path, value in before.items():
            path.write_text(value)


def link_standard_socket(containerd: Containerd) -> None:
    """Have the containerd's socket at `STANDARD_SOCKET` too, in its own mount namespace."""
    link = ["ln", "--symbolic", "--force", containerd.endpoint.removeprefix("unix://"), str(STANDARD_SOCKET)]
    subprocess.run(containerd.inside(link), check=True)


class UpstreamKubelet(ClusterAgent):
    """Owns one process of upstream's kubelet, its node's name, and what it changed of the kernel's settings."""

    def __init__(self, containerd: Containerd, plane: ControlPlane, *words: str, **configuration: object) -> None:
        self._healthz = free_port()
        given = {"healthzPort": self._healthz, "volumePluginDir": str(containerd.directory / "plugins")}
        super().__init__(containerd, plane, *words, **DIFFERENCES | given | configuration)
        self._program = plane.programs / "kubelet"
        self._kept = ExitStack()

    def start(self, *, wait: bool = True) -> None:
        """Start it; ``wait``: return when it says that it is healthy."""
        self._kept.enter_context(kernel_settings_kept())
        for hierarchy in hierarchies():
            (hierarchy / self.containerd.cgroup_parent.lstrip("/")).mkdir(exist_ok=True)
        link_standard_socket(self.containerd)
        super().start(wait=wait)

    def kill(self) -> None:
        """End it, and have the kernel's settings as they were."""
        super().kill()
        self._kept.close()

    def pods(self) -> dict[str, dict[str, Any]]:
        """Every pod of the node, as the API server has it."""
        items = self.plane.kubectl.get("pods", f"--field-selector=spec.nodeName={self.name}")["items"]
        return {item["metadata"]["name"]: item for item in items}

    def _command(self) -> list[str]:
        directories = [f"--root-dir={self.root}", f"--cert-dir={self.directory / 'pki'}"]
        return [str(self._program), f"--config={self._configuration}", *directories, *self.words]

    def _answers(self) -> bool:
        assert self.alive, self.story()
        asked = http.client.HTTPConnection("localhost", self._healthz, timeout=5)
        with closing(asked) as connection, suppress(OSError):
            connection.request("GET", "/healthz")
            return connection.getresponse().status == http.HTTPStatus.OK
        return False
