"""What is asked of a container runtime (``cri``, ``embedded``, ``fake``), and of the programs in its containers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from trikubelet.model.handlers import Health, HttpAnswer, HttpTarget
    from trikubelet.model.registry import Login
    from trikubelet.model.runtime import (
        ContainerEvent,
        ContainerStatus,
        ExecResult,
        ImageInfo,
        RuntimeInfo,
        SandboxStatus,
        StatusReplies,
        Undecoded,
    )
    from trikubelet.model.runtime_config import ContainerConfig, LinuxResources, SandboxConfig
    from trikubelet.model.standard_streams import StandardStreams
    from trikubelet.model.usage import ContainerStats, ImageStores


class Runtime(Protocol):
    """A container runtime, as the CRI's RuntimeService has it. While there is no connection to it, calls wait for one,
    unsent; those under way when it is lost fail."""

    async def wait_connected(self) -> None:
        """Return once there is a connection, so that what is asked next is sent at once: for whoever counts how long a
        call takes."""
        ...

    async def info(self) -> RuntimeInfo:
        """Who the runtime is and how it is: ``Version`` and ``Status``."""
        ...

    async def cgroup_driver(self) -> str:
        """``cgroupfs`` or ``systemd``, by which it makes cgroups (``RuntimeConfig``); empty where it does not say."""
        ...

    async def list_sandboxes(self, pod_uid: str | None = None) -> Sequence[bytes]:
        """The undecoded ``ListPodSandbox`` reply, in one or more chunks; of one pod when ``pod_uid`` is given."""
        ...

    async def list_containers(self, pod_uid: str | None = None) -> Sequence[bytes]:
        """The undecoded ``ListContainers`` reply, in one or more chunks; of one pod when ``pod_uid`` is given."""
        ...

    async def sandbox_status(self, sandbox_id: str) -> Undecoded[SandboxStatus]:
        """One sandbox. Raises NotFound."""
        ...

    async def container_status(self, container_id: str) -> Undecoded[ContainerStatus]:
        """One container. Raises NotFound."""
        ...

    async def statuses(self, sandbox_ids: Sequence[str], container_ids: Sequence[str]) -> StatusReplies:
        """Many sandboxes and containers, asked side by side but for what would crowd out others. What does not exist
        is left out; any other error is raised as soon as it is there."""
        ...

    async def run_sandbox(self, config: SandboxConfig) -> str:
        """Create and start a sandbox; its id."""
        ...

    async def stop_sandbox(self, sandbox_id: str) -> None:
        """Stop a sandbox, its containers by force, and release its network. Stopping twice is not an error."""
        ...

    async def remove_sandbox(self, sandbox_id: str) -> None:
        """Remove a sandbox and its containers. Removing an unknown one is not an error."""
        ...

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str:
        """Create, without starting, a container; its id."""
        ...

    async def start_container(self, container_id: str) -> None:
        """Start a created container."""
        ...

    async def stop_container(self, container_id: str, grace_seconds: int) -> None:
        """Stop signal, then SIGKILL after the grace. Returns when the container has stopped."""
        ...

    async def remove_container(self, container_id: str) -> None:
        """Remove a container. Removing an unknown one is not an error."""
        ...

    async def update_resources(self, container_id: str, resources: LinuxResources) -> None:
        """Hold a container that runs to other amounts from now on: processor time and memory, 0 for no limit. Raises
        NotFound, NotImplementedByRuntime."""
        ...

    async def exec_sync(self, container_id: str, command: Sequence[str], limit_seconds: int) -> ExecResult:
        """Run a command in a container to its end; the runtime kills it after ``limit_seconds`` (0: never), and
        that is a RuntimeTimeout."""
        ...

    async def container_stats(self) -> Sequence[ContainerStats]:
        """What each container that runs uses. Raises NotImplementedByRuntime."""
        ...

    async def exec_url(self, container_id: str, command: Sequence[str], streams: StandardStreams) -> str:
        """Where a command in a running container can be talked to: a URL, good once and for a short time, of the
        runtime's own server, which speaks SPDY/3.1 and within it ``core.remote_command``. Raises NotFound."""
        ...

    async def attach_url(self, container_id: str, streams: StandardStreams) -> str:
        """Where a running container's own process can be talked to, likewise. Raises NotFound."""
        ...

    async def port_forward_url(self, sandbox_id: str, ports: Sequence[int]) -> str:
        """Where connections into a sandbox's network can be had, likewise. ``ports`` are for the WebSocket protocol,
        which does not ask for them later. Raises NotFound."""
        ...

    async def checkpoint_container(self, container_id: str, path: str, limit_seconds: int) -> None:
        """Write the state of a container that runs into an archive; the runtime gives up after ``limit_seconds``.
        Raises NotFound, NotImplementedByRuntime."""
        ...

    async def reopen_log(self, container_id: str) -> None:
        """Make the runtime reopen the container's log file, after a rotation."""
        ...

    def events(self) -> AbstractAsyncContextManager[AsyncIterator[ContainerEvent]]:
        """The runtime's container events. Raises NotImplementedByRuntime on entry or at the first item."""
        ...


class RuntimeHealth(Protocol):
    """How the runtime is and what it says it can do, as it last said: asked in the middle of a decision, so nothing of
    it waits. ``node.runtime_state`` knows."""

    @property
    def name(self) -> str:
        """What the runtime calls itself: the scheme of container ids in statuses; ``unknown`` until it has spoken."""
        ...

    def network_problem(self) -> str | None:
        """Why the runtime's network is not ready, or None. Unknown counts as ready: the runtime will say."""
        ...

    def supports_user_namespaces(self, handler: str) -> bool:
        """Whether pods of that runtime handler can have users of their own, which are others of the node's."""
        ...

    def supports_recursive_read_only(self, handler: str) -> bool:
        """Whether pods of that runtime handler can have mounts that are read-only with all that is mounted in them."""
        ...

    def supports_strict_groups(self) -> bool | None:
        """Whether the runtime can give a process no groups but its pod's; None until it has spoken."""
        ...


class Images(Protocol):
    """The CRI's ImageService."""

    async def image_status(self, image: str) -> ImageInfo | None:
        """The image of that name or id, or None when the node does not have it."""
        ...

    async def pull_image(self, image: str, sandbox: SandboxConfig | None = None, login: Login | None = None) -> str:
        """Pull an image, as nobody or with a login; the reference to create containers with."""
        ...

    async def list_images(self) -> Sequence[ImageInfo]:
        """Every image on the node."""
        ...

    async def remove_image(self, image: str) -> None:
        """Remove an image. Removing an unknown one is not an error."""
        ...

    async def stores(self) -> ImageStores:
        """Where images and containers' layers are kept, and how much that takes. Raises NotImplementedByRuntime."""
        ...


class Handlers(Protocol):
    """Asking containers over the network, for probes and hooks. A call takes as long as its caller's cancel scope lets
    it and keeps little of the answer. Raises ``model.handlers.Unreachable``."""

    async def http_get(self, target: HttpTarget) -> HttpAnswer:
        """GET, following redirects to the same host. TLS is spoken with anybody, whatever certificate it has. Raises
        NotTls where it is not spoken."""
        ...

    def prepare_http_get(self, target: HttpTarget) -> Callable[[], Awaitable[HttpAnswer]]:
        """The same question, for whoever asks it again and again: what is sent is written once, and is kept as long as
        what is returned."""
        ...

    async def tcp_connect(self, host: str, port: int) -> None:
        """Open a connection, and close it."""
        ...

    async def grpc_health(self, host: str, port: int, service: str, agent: str) -> Health:
        """How the service says it is, by gRPC's health protocol without TLS; ``agent`` is the name we go by."""
        ...
