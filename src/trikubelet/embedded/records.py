"""The sandboxes and containers of the embedded runtime, and their CRI messages.

    created ──start──► running ──process ended──► exited
       └──start failed────────────────────────────► exited (128, StartError)

Changed by ``embedded.pods.Pods`` only, but for the listeners, which ``embedded.commands`` adds and removes. Times are
nanoseconds since the epoch, 0 for "not yet", as the CRI has them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import trio

from trikubelet.cri.v1 import api_pb2 as pb

if TYPE_CHECKING:
    from trikubelet.embedded.commands import Listener
    from trikubelet.embedded.link import Command
    from trikubelet.embedded.log import ContainerLog


@dataclass(slots=True, eq=False)
class Sandbox:
    """One pod sandbox: a group of containers. It has no process of its own."""

    id: str
    config: pb.PodSandboxConfig
    created_at: int
    handler: str
    ips: tuple[str, ...]
    ready: bool = True

    @property
    def _state(self) -> pb.PodSandboxState:
        return pb.SANDBOX_READY if self.ready else pb.SANDBOX_NOTREADY

    def item(self) -> pb.PodSandbox:
        """As ``ListPodSandbox`` shows it."""
        return pb.PodSandbox(
            id=self.id,
            metadata=self.config.metadata,
            state=self._state,
            created_at=self.created_at,
            labels=self.config.labels,
            annotations=self.config.annotations,
            runtime_handler=self.handler,
        )

    def status(self) -> pb.PodSandboxStatus:
        """As ``PodSandboxStatus`` shows it."""
        options = self.config.linux.security_context.namespace_options
        ips = self.ips if self.ready else ()
        return pb.PodSandboxStatus(
            id=self.id,
            metadata=self.config.metadata,
            state=self._state,
            created_at=self.created_at,
            network=pb.PodSandboxNetworkStatus(
                ip=ips[0] if ips else "", additional_ips=[pb.PodIP(ip=ip) for ip in ips[1:]]
            ),
            linux=pb.LinuxPodSandboxStatus(namespaces=pb.Namespace(options=options)),
            labels=self.config.labels,
            annotations=self.config.annotations,
            runtime_handler=self.handler,
        )


@dataclass(slots=True, eq=False)
class Container:
    """One container. ``spec`` describes its process. ``settled`` is set once a start has succeeded or
    failed, ``ended`` once the container has exited. ``stdin`` is set where the pod has ``stdin`` and while it is open;
    ``listeners`` are attached to its output."""

    id: str
    sandbox: Sandbox
    config: pb.ContainerConfig
    spec: dict[str, Any]
    image: str
    stop_signal: int
    log_path: str
    created_at: int
    state: pb.ContainerState = pb.CONTAINER_CREATED
    started_at: int = 0
    finished_at: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    starting: bool = False
    command: Command | None = None
    log: ContainerLog | None = None
    stdin: trio.lowlevel.FdStream | None = None
    listeners: set[Listener] = field(default_factory=set)
    settled: trio.Event = field(default_factory=trio.Event)
    ended: trio.Event = field(default_factory=trio.Event)

    def close_stdin(self) -> None:
        """Close its process's standard input."""
        if self.stdin is not None:
            self.stdin.close()
            self.stdin = None

    def item(self) -> pb.Container:
        """As ``ListContainers`` shows it."""
        return pb.Container(
            id=self.id,
            pod_sandbox_id=self.sandbox.id,
            metadata=self.config.metadata,
            image=self.config.image,
            image_ref=self.image,
            state=self.state,
            created_at=self.created_at,
            labels=self.config.labels,
            annotations=self.config.annotations,
            image_id=self.image,
        )

    def status(self) -> pb.ContainerStatus:
        """As ``ContainerStatus`` shows it."""
        return pb.ContainerStatus(
            id=self.id,
            metadata=self.config.metadata,
            state=self.state,
            created_at=self.created_at,
            started_at=self.started_at,
            finished_at=self.finished_at,
            exit_code=self.exit_code,
            image=self.config.image,
            image_ref=self.image,
            reason=self.reason,
            message=self.message,
            labels=self.config.labels,
            annotations=self.config.annotations,
            mounts=self.config.mounts,
            log_path=self.log_path,
            image_id=self.image,
        )
