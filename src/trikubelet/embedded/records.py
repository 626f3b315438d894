"""The sandboxes and containers of the embedded runtime, and their CRI messages.

    created ──start──► running ──process ended──► exited
       └──start failed────────────────────────────► exited (128, StartError)

A container that an earlier agent started has exited: its process ended with that agent (``remembered_container``).

Changed by ``embedded.pods.Pods`` only, except for the listeners, which ``embedded.commands`` adds and removes. Times
are nanoseconds since the epoch, 0 for "not yet", as in the CRI.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any, Final

import msgspec
import trio
from msgspec import field

from trikubelet.cri.v1 import api_pb2 as pb

if TYPE_CHECKING:
    from trikubelet.embedded.commands import Listener
    from trikubelet.embedded.link import Command
    from trikubelet.embedded.log import ContainerLog


class Sandbox(msgspec.Struct, eq=False):
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
        """Return it as ``ListPodSandbox`` shows it."""
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
        """Return it as ``PodSandboxStatus`` shows it."""
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


class Container(msgspec.Struct, eq=False):
    """One container. ``spec``: describes its process. ``settled``: is set once a start has succeeded or failed,
    ``ended``: once the container has exited, ``recorded``: once that is on the disk, or cannot be; the record is
    changed under ``recording``. ``stdin``: is set if the pod has ``stdin`` and while it is open; ``listeners``: are
    attached to its output."""

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
    recorded: trio.Event = field(default_factory=trio.Event)
    recording: trio.Lock = field(default_factory=trio.Lock)

    def not_started(self) -> None:
        """Reset the state after a start without effect: it may be started once more."""
        self.starting = False
        self.settled.set()  # for callers that wait for this start
        self.settled = trio.Event()

    def close_stdin(self) -> None:
        """Close its process's standard input."""
        if self.stdin is not None:
            self.stdin.close()
            self.stdin = None

    def item(self) -> pb.Container:
        """Return it as ``ListContainers`` shows it."""
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
        """Return it as ``ContainerStatus`` shows it."""
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


CUT_EXIT_CODE: Final = 143
CUT_MESSAGE: Final = "The agent stopped while it ran, and it ended with exit code 0"
UNKNOWN_EXIT_CODE: Final = 137
UNKNOWN_REASON: Final = "ContainerStatusUnknown"
UNKNOWN_MESSAGE: Final = "The agent ended before the container did, and its end was not recorded"


def remembered_sandbox(status: pb.PodSandboxStatus) -> Sandbox:
    """Return a sandbox of an earlier agent: none of its containers runs any more."""
    config = pb.PodSandboxConfig(metadata=status.metadata, labels=status.labels, annotations=status.annotations)
    config.linux.security_context.namespace_options.CopyFrom(status.linux.namespaces.options)
    return Sandbox(status.id, config, status.created_at, status.runtime_handler, ips=(), ready=False)


def remembered_container(sandbox: Sandbox, status: pb.ContainerStatus, now_ns: int) -> Container:
    """Return a container of an earlier agent. One without a recorded end counts as killed, ``now``."""
    has_end = status.state == pb.CONTAINER_EXITED
    container = Container(
        id=status.id,
        sandbox=sandbox,
        config=pb.ContainerConfig(
            metadata=status.metadata,
            image=status.image,
            labels=status.labels,
            annotations=status.annotations,
            mounts=status.mounts,
        ),
        spec={},
        image=status.image_ref,
        stop_signal=signal.SIGTERM,
        log_path=status.log_path,
        created_at=status.created_at,
        state=pb.CONTAINER_EXITED,
        started_at=status.started_at or status.created_at,
        finished_at=status.finished_at if has_end else now_ns,
        exit_code=status.exit_code if has_end else UNKNOWN_EXIT_CODE,
        reason=status.reason if has_end else UNKNOWN_REASON,
        message=status.message if has_end else UNKNOWN_MESSAGE,
    )
    for event in (container.settled, container.ended):
        event.set()
    if has_end:
        container.recorded.set()
    return container
