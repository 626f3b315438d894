"""Pods by bare CRI calls, for live tests that are about the runtime and not about the agent.

Called by ``tests/live/test_infrastructure.py`` and by whoever needs a pod the agent knows nothing of. Nothing is
decided here: one sandbox, one container at a time, logs below the instance's directory.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trikubelet.cri.v1 import api_pb2 as api

from . import images
from .daemon import await_that

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from .containerd import Containerd

_numbers = itertools.count()


@dataclass(frozen=True)
class Container:
    """One container in a `Pod`. ``log`` is where the runtime writes what it prints, in the CRI's format."""

    daemon: Containerd
    id: str
    log: Path

    @property
    def status(self) -> api.ContainerStatus:
        """What ContainerStatus says now."""
        status: api.ContainerStatus = self.daemon.cri.call("ContainerStatus", container_id=self.id).status
        return status

    @property
    def output(self) -> str:
        """What it printed so far, both streams, without the log's own columns."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return "".join(line.split(" ", 3)[3] + "\n" for line in lines)

    def wait_exit(self, seconds: float = 60) -> api.ContainerStatus:
        """Its status once it has ended. Raises RuntimeError when it has not after ``seconds``."""
        await_that(lambda: self.status.state == api.CONTAINER_EXITED, seconds, lambda: f"{self.id} runs on")
        return self.status

    def wait_output(self, text: str, seconds: float = 60) -> str:
        """Its output once that holds ``text``. Raises RuntimeError when it does not after ``seconds``."""
        await_that(lambda: text in self.output, seconds, lambda: f"{text!r} is not in {self.output!r}")
        return self.output

    def run(self, *command: str, seconds: int = 60) -> tuple[int, str]:
        """Exit code and output of a command run in the container, by ExecSync."""
        reply = self.daemon.cri.call("ExecSync", container_id=self.id, cmd=command, timeout=seconds)
        return reply.exit_code, (reply.stdout + reply.stderr).decode()


class Pod:
    """One sandbox of ours, READY once constructed. ``ports`` maps host ports to container ports."""

    def __init__(
        self,
        daemon: Containerd,
        name: str = "pod",
        *,
        ports: Mapping[int, int] | None = None,
        host_network: bool = False,
    ) -> None:
        uid = f"{name}-{next(_numbers)}"
        self.daemon = daemon
        self.logs = daemon.directory / "logs" / uid
        self.logs.mkdir(parents=True)
        network = api.NODE if host_network else api.POD
        options = api.NamespaceOption(network=network, pid=api.CONTAINER)
        self.config = api.PodSandboxConfig(
            metadata=api.PodSandboxMetadata(name=name, uid=uid, namespace="live"),
            hostname="" if host_network else name,
            log_directory=str(self.logs),
            port_mappings=[api.PortMapping(container_port=c, host_port=h) for h, c in (ports or {}).items()],
            linux=api.LinuxPodSandboxConfig(
                cgroup_parent=f"{daemon.cgroup_parent}/{uid}",
                security_context=api.LinuxSandboxSecurityContext(namespace_options=options),
            ),
        )
        self.id: str = daemon.cri.call("RunPodSandbox", config=self.config).pod_sandbox_id

    @property
    def status(self) -> api.PodSandboxStatus:
        """What PodSandboxStatus says now."""
        status: api.PodSandboxStatus = self.daemon.cri.call("PodSandboxStatus", pod_sandbox_id=self.id).status
        return status

    @property
    def ip(self) -> str:
        """The pod's address; empty on the host's network."""
        return self.status.network.ip

    def start(self, args: Sequence[str] = (), image: str = images.TESTPROG, **config: Any) -> Container:
        """Creates and starts a container; ``config`` goes into its ContainerConfig as it is, so that ``command``
        there replaces the image's entry point, which is given ``args``. Raises GRPCError as the runtime does."""
        container = self.create(args, image, **config)
        self.daemon.cri.call("StartContainer", container_id=container.id)
        return container

    def create(self, args: Sequence[str] = (), image: str = images.TESTPROG, **config: Any) -> Container:
        """As `start`, without starting it."""
        name = f"c{next(_numbers)}"
        wanted = api.ContainerConfig(
            metadata=api.ContainerMetadata(name=name),
            image=api.ImageSpec(image=image),
            args=args,
            log_path=f"{name}.log",
            linux=config.pop("linux", None) or api.LinuxContainerConfig(),
            **config,
        )
        options = api.NamespaceOption(
            network=self.config.linux.security_context.namespace_options.network, pid=api.CONTAINER
        )
        wanted.linux.security_context.namespace_options.CopyFrom(options)
        reply = self.daemon.cri.call(
            "CreateContainer", pod_sandbox_id=self.id, config=wanted, sandbox_config=self.config
        )
        return Container(self.daemon, reply.container_id, self.logs / f"{name}.log")

    def remove(self) -> None:
        """Stops and removes the sandbox with its containers."""
        self.daemon.cri.call("StopPodSandbox", pod_sandbox_id=self.id)
        self.daemon.cri.call("RemovePodSandbox", pod_sandbox_id=self.id)
