"""Ports of a container runtime (``cri``, ``embedded``, ``fake``), and of the programs in its containers."""

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
    """A container runtime, like the CRI's RuntimeService. While there is no connection to it, calls wait for one,
    unsent; those in progress when it is lost fail."""

    async def wait_connected(self) -> None:
        """Return once there is a connection, so that the next call is sent at once: for callers that measure a call's
        duration."""
        ...

    async def info(self) -> RuntimeInfo:
        """Return the runtime's name, version and conditions: ``Version`` and ``Status``."""
        ...

    async def cgroup_driver(self) -> str:
        """Return ``cgroupfs`` or ``systemd``, the runtime's cgroup driver (``RuntimeConfig``); empty if it does not
        report one."""
        ...

    async def list_sandboxes(self, pod_uid: str | None = None) -> Sequence[bytes]:
        """Return the undecoded ``ListPodSandbox`` reply, in one or more chunks; of one pod if ``pod_uid`` is given."""
        ...

    async def list_containers(self, pod_uid: str | None = None) -> Sequence[bytes]:
        """Return the undecoded ``ListContainers`` reply, in one or more chunks; of one pod if ``pod_uid`` is given."""
        ...

    async def sandbox_status(self, sandbox_id: str) -> Undecoded[SandboxStatus]:
        """Return the status of one sandbox. Raises NotFound."""
        ...

    async def container_status(self, container_id: str) -> Undecoded[ContainerStatus]:
        """Return the status of one container. Raises NotFound."""
        ...

    async def statuses(self, sandbox_ids: Sequence[str], container_ids: Sequence[str]) -> StatusReplies:
        """Return the statuses of many sandboxes and containers, requested concurrently within the limit that leaves
        room for other calls. Missing ones are left out; any other error is raised at once."""
        ...

    async def run_sandbox(self, config: SandboxConfig) -> str:
        """Create and start a sandbox and return its id."""
        ...

    async def stop_sandbox(self, sandbox_id: str) -> None:
        """Stop a sandbox, its containers by force, and release its network. Stopping twice is not an error."""
        ...

    async def remove_sandbox(self, sandbox_id: str) -> None:
        """Remove a sandbox and its containers. Removing an unknown one is not an error."""
        ...

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str:
        """Create a container without starting it, and return its id."""
        ...

    async def start_container(self, container_id: str) -> None:
        """Start a created container."""
        ...

    async def stop_container(self, container_id: str, grace_seconds: int) -> None:
        """Send the stop signal, and SIGKILL after the grace period. Returns when the container has stopped."""
        ...

    async def remove_container(self, container_id: str) -> None:
        """Remove a container. Removing an unknown one is not an error."""
        ...

    async def update_resources(self, container_id: str, resources: LinuxResources) -> None:
        """Change the resources of a running container: CPU and memory, 0 for no limit. Raises NotFound,
        NotImplementedByRuntime."""
        ...

    async def exec_sync(self, container_id: str, command: Sequence[str], limit_seconds: int) -> ExecResult:
        """Run a command in a container to its end; the runtime kills it after ``limit_seconds`` (0: never), which
        raises RuntimeTimeout."""
        ...

    async def container_stats(self) -> Sequence[ContainerStats]:
        """Return the resource usage of each running container. Raises NotImplementedByRuntime."""
        ...

    async def exec_url(self, container_id: str, command: Sequence[str], streams: StandardStreams) -> str:
        """Return a URL for the streams of a command in a running container: valid once and for a short time, on the
        runtime's own server, which speaks SPDY/3.1 and within it ``core.remote_command``. Raises NotFound."""
        ...

    async def attach_url(self, container_id: str, streams: StandardStreams) -> str:
        """Return a URL for the streams of a running container's own process, likewise. Raises NotFound."""
        ...

    async def port_forward_url(self, sandbox_id: str, ports: Sequence[int]) -> str:
        """Return a URL for connections into a sandbox's network, likewise. ``ports`` are for the WebSocket protocol,
        which does not send them later. Raises NotFound."""
        ...

    async def checkpoint_container(self, container_id: str, path: str, limit_seconds: int) -> None:
        """Write the state of a running container into an archive; the runtime times out after ``limit_seconds``. Raises
        NotFound, NotImplementedByRuntime."""
        ...

    async def reopen_log(self, container_id: str) -> None:
        """Make the runtime reopen the container's log file, after a rotation."""
        ...

    def events(self) -> AbstractAsyncContextManager[AsyncIterator[ContainerEvent]]:
        """Return the runtime's container events. Raises NotImplementedByRuntime on entry or at the first item."""
        ...


class RuntimeHealth(Protocol):
    """The runtime's last reported state and features: it is read in the middle of decisions, so no method waits.
    ``node.runtime_state`` implements it."""

    @property
    def name(self) -> str:
        """Return the runtime's name: the scheme of container ids in statuses; ``unknown`` until it has answered."""
        ...

    def network_problem(self) -> str | None:
        """Return why the runtime's network is not ready, or None. Unknown counts as ready: the runtime will report an
        error."""
        ...

    def supports_user_namespaces(self, handler: str) -> bool:
        """True if pods of that runtime handler can have user namespaces."""
        ...

    def supports_recursive_read_only(self, handler: str) -> bool:
        """True if pods of that runtime handler can have mounts that are recursively read-only."""
        ...

    def supports_strict_groups(self) -> bool | None:
        """True if the runtime can give a process only its pod's groups; None until it has answered."""
        ...


class Images(Protocol):
    """The CRI's ImageService."""

    async def image_status(self, image: str) -> ImageInfo | None:
        """Return the image of that name or id, or None if the node does not have it."""
        ...

    async def pull_image(self, image: str, sandbox: SandboxConfig | None = None, login: Login | None = None) -> str:
        """Pull an image, anonymously or with a login, and return the reference to create containers with."""
        ...

    async def list_images(self) -> Sequence[ImageInfo]:
        """Return every image on the node."""
        ...

    async def remove_image(self, image: str) -> None:
        """Remove an image. Removing an unknown one is not an error."""
        ...

    async def stores(self) -> ImageStores:
        """Return the places of images and containers' layers, and their disk usage. Raises NotImplementedByRuntime."""
        ...


class Handlers(Protocol):
    """Requests to containers over the network, for probes and hooks. A call takes as long as its caller's cancel scope
    allows and keeps little of the answer. Raises ``model.handlers.Unreachable``."""

    async def http_get(self, target: HttpTarget) -> HttpAnswer:
        """Send a GET, following redirects to the same host. TLS certificates are not verified. Raises NotTls if the
        server does not speak TLS."""
        ...

    def prepare_http_get(self, target: HttpTarget) -> Callable[[], Awaitable[HttpAnswer]]:
        """Prepare the same request for callers that repeat it: the bytes are made once, and live as long as the
        returned function."""
        ...

    async def tcp_connect(self, host: str, port: int) -> None:
        """Open a connection, and close it."""
        ...

    async def grpc_health(self, host: str, port: int, service: str, agent: str) -> Health:
        """Return the health of a service, by gRPC's health protocol without TLS; ``agent`` is our user agent."""
        ...
