"""A container runtime in memory (``ports.Runtime``): the interface of a ``World``, with problems.

Its lists and statuses are real protobuf bytes, with items and maps in a random order, like a real runtime's: so a
comparison of raw bytes fails.
"""

from __future__ import annotations

import math
import random
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import trio

from trikubelet.core.names import POD_UID
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.model.runtime import (
    ContainerEvent,
    ContainerState,
    ExecResult,
    RuntimeCondition,
    RuntimeHandler,
    RuntimeInfo,
    SandboxState,
)
from trikubelet.model.runtime_errors import (
    NotImplementedByRuntime,
    RuntimeCallError,
    RuntimeFailure,
    RuntimeTimeout,
)
from trikubelet.model.usage import ContainerStats, FsUsage, Usage
from trikubelet.testing.caller import Caller
from trikubelet.testing.chance import Problems
from trikubelet.testing.health import answers_after, is_well, split_kind, to_nobody
from trikubelet.testing.replies import container_reply, sandbox_reply, shuffled
from trikubelet.testing.side_by_side import statuses_side_by_side
from trikubelet.testing.world import SIGKILL_CODE

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

    from trikubelet.model.runtime import ContainerStatus, SandboxStatus, Undecoded
    from trikubelet.model.runtime_config import ContainerConfig, LinuxResources, SandboxConfig
    from trikubelet.model.standard_streams import StandardStreams
    from trikubelet.testing.health import Listener
    from trikubelet.testing.world import World

EVENTS_WAITING_MAX = 1000


class MemoryRuntime:
    """One agent's connection to a world. A new agent makes a new one; the world stays.

    ``watcher`` is called with every call as it comes in, before anything is done: its CRI name and subject;
    ``listener`` with the answers to probes."""

    def __init__(
        self,
        world: World,
        problems: Problems | None = None,
        chance: random.Random | None = None,
        watcher: Callable[[str, str], None] | None = None,
        listener: Listener = to_nobody,
    ) -> None:
        self._world = world
        self._problems = problems or Problems()
        self._watcher = watcher
        self._listener = listener
        self._chance = chance or random.Random(0)  # noqa: S311 - a simulation's seed
        self.caller = Caller(self._problems, self._chance)

    async def _receive(self, call: str, subject: str = "", *, may_hang: bool = True) -> None:
        """Receive a call. Raises RuntimeUnavailable for an agent that was killed."""
        await self.caller.wait_connected()
        self._world.note(f"{call} {subject}")
        if self._watcher is not None:
            self._watcher(call, subject)
        await self.caller.asks(call, may_hang=may_hang)

    async def wait_connected(self) -> None:
        """Return once the runtime is connected. Raises RuntimeUnavailable for an agent that was killed."""
        await trio.lowlevel.checkpoint()
        await self.caller.wait_connected()

    async def info(self) -> RuntimeInfo:
        """Always healthy, when it answers."""
        await self._receive("Status")
        conditions = (RuntimeCondition("RuntimeReady", True), RuntimeCondition("NetworkReady", True))
        handlers = (RuntimeHandler("", user_namespaces=True),)
        return RuntimeInfo("memory", "1", "v1", conditions, handlers=handlers, supplemental_groups_policy=True)

    async def cgroup_driver(self) -> str:
        """The driver of the node in memory."""
        await self._receive("RuntimeConfig")
        return "cgroupfs"

    async def list_sandboxes(self, pod_uid: str | None = None) -> Sequence[bytes]:
        """Every sandbox, in one chunk."""
        await self._receive("ListPodSandbox", pod_uid or "")
        listed = [s for s in self._world.sandboxes.values() if pod_uid in (None, s.uid)]
        items = [
            pb.PodSandbox(
                id=s.id,
                metadata=pb.PodSandboxMetadata(name=s.name, uid=s.uid, namespace=s.namespace, attempt=s.attempt),
                state=self._world.listed_state(s).value,  # type: ignore[arg-type] # protobuf's stubs want its own enum
                created_at=s.created_at,
                labels=shuffled(self._world.sandbox_configs[s.id].labels, self._chance),
            )
            for s in self._chance.sample(listed, len(listed))
        ]
        return [pb.ListPodSandboxResponse(items=items).SerializeToString()]

    async def list_containers(self, pod_uid: str | None = None) -> Sequence[bytes]:
        """Every container, in one chunk."""
        await self._receive("ListContainers", pod_uid or "")
        listed = [c for c in self._world.all_containers() if pod_uid in (None, self._config(c).labels.get(POD_UID))]
        items = [
            pb.Container(
                id=c.id,
                pod_sandbox_id=c.sandbox_id,
                metadata=pb.ContainerMetadata(name=c.name, attempt=c.attempt),
                state=c.state.value,  # type: ignore[arg-type] # protobuf's stubs want its own enum
                created_at=c.created_at,
                labels=shuffled(self._config(c).labels, self._chance),
            )
            for c in self._chance.sample(listed, len(listed))
        ]
        return [pb.ListContainersResponse(containers=items).SerializeToString()]

    async def sandbox_status(self, sandbox_id: str) -> Undecoded[SandboxStatus]:
        """One sandbox. Raises NotFound."""
        await self._receive("PodSandboxStatus", sandbox_id)
        status = self._world.sandbox(sandbox_id)
        config = self._world.sandbox_configs[sandbox_id]
        return sandbox_reply(status, self._chance, config.labels, config.annotations)

    async def container_status(self, container_id: str) -> Undecoded[ContainerStatus]:
        """One container. Raises NotFound."""
        await self._receive("ContainerStatus", container_id)
        status = self._world.container(container_id)
        config = self._config(status)
        return container_reply(status, self._chance, config.labels, config.annotations)

    statuses = statuses_side_by_side

    def _config(self, status: ContainerStatus) -> ContainerConfig:
        return self._world.containers[status.id].config

    async def run_sandbox(self, config: SandboxConfig) -> str:
        """Create and start a sandbox; its id."""
        await self._receive("RunPodSandbox", config.uid)
        made = self._world.run_sandbox(config)
        await self.caller.is_answered("RunPodSandbox", partial(self._world.remove_sandbox, made))
        return made

    async def stop_sandbox(self, sandbox_id: str) -> None:
        """Stop a sandbox and its containers."""
        await self._receive("StopPodSandbox", sandbox_id)
        self._world.stop_sandbox(sandbox_id)
        await self.caller.is_answered("StopPodSandbox")

    async def remove_sandbox(self, sandbox_id: str) -> None:
        """Remove a sandbox and its containers."""
        await self._receive("RemovePodSandbox", sandbox_id)
        self._world.remove_sandbox(sandbox_id)
        await self.caller.is_answered("RemovePodSandbox")

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str:
        """Create a container; its id."""
        await self._receive("CreateContainer", sandbox_id)
        made = self._world.create_container(sandbox_id, config)
        await self.caller.is_answered("CreateContainer", partial(self._world.remove_container, made))
        return made

    async def start_container(self, container_id: str) -> None:
        """Start a created container."""
        await self._receive("StartContainer", container_id)
        self._world.start_container(container_id)
        await self.caller.is_answered("StartContainer", partial(self._world.roll_back_start, container_id))

    async def stop_container(self, container_id: str, grace_seconds: int) -> None:
        """Stop signal, then SIGKILL after the grace period."""
        await self._receive("StopContainer", container_id)
        status = self._world.container(container_id)
        if status.state in (ContainerState.RUNNING, ContainerState.UNKNOWN):
            seconds = self._world.stop_seconds(container_id, grace_seconds)
            with self.caller.until_killed():
                await trio.sleep(seconds)
            is_killed = math.isclose(seconds, grace_seconds)
            self._world.end(container_id, SIGKILL_CODE if is_killed else self._world.stop_code(container_id))
        await self.caller.is_answered("StopContainer")

    async def remove_container(self, container_id: str) -> None:
        """Remove a container; a running one is killed."""
        await self._receive("RemoveContainer", container_id)
        self._world.end(container_id, SIGKILL_CODE)
        self._world.remove_container(container_id)
        await self.caller.is_answered("RemoveContainer")

    async def update_resources(self, container_id: str, resources: LinuxResources) -> None:
        """Change the limits of a running container. Raises NotFound."""
        await self._receive("UpdateContainerResources", container_id)
        self._must_run(container_id)
        self._world.hold(container_id, resources)
        await self.caller.is_answered("UpdateContainerResources")

    async def exec_sync(self, container_id: str, command: Sequence[str], limit_seconds: int) -> ExecResult:
        """Answer ``echo`` as a shell would, ``check`` like ``testing.health``; run ``exit CODE AFTER`` and ``hang``,
        but no longer than their container runs; fail the rest with 127. Raises RuntimeTimeout after the limit."""
        if command[0] == "check":
            await self._receive("ExecSync", container_id)
            self._must_run(container_id)
            return await self._check(container_id, command[1:], limit_seconds)
        await self.caller.wait_connected()
        run = self._world.command_begins(container_id, command)
        try:
            # Without a limit, a hanging call is a hanging command: a scenario asks for it explicitly.
            await self._receive("ExecSync", container_id, may_hang=limit_seconds > 0)
            self._must_run(container_id)
            result = await self._run(container_id, command, limit_seconds or math.inf)
        except RuntimeCallError:
            run.is_over = run.failed = True
            raise
        finally:
            run.ended_at = trio.current_time()
        run.is_over, run.failed = True, result.exit_code != 0
        return result

    async def exec_url(self, container_id: str, command: Sequence[str], streams: StandardStreams) -> str:
        """A URL without a server; the container must exist and run."""
        await self._receive("Exec", container_id)
        self._must_run(container_id)
        return f"http://memory.invalid/exec/{container_id}"

    async def attach_url(self, container_id: str, streams: StandardStreams) -> str:
        """A URL without a server; the container must exist and run."""
        await self._receive("Attach", container_id)
        self._must_run(container_id)
        return f"http://memory.invalid/attach/{container_id}"

    async def port_forward_url(self, sandbox_id: str, ports: Sequence[int]) -> str:
        """A URL without a server; the sandbox must exist and be ready."""
        await self._receive("PortForward", sandbox_id)
        if self._world.sandbox(sandbox_id).state is not SandboxState.READY:
            raise RuntimeFailure(f"sandbox {sandbox_id} is not ready")
        return f"http://memory.invalid/portforward/{sandbox_id}"

    def _must_run(self, container_id: str) -> None:
        if self._world.container(container_id).state is not ContainerState.RUNNING:
            raise RuntimeFailure(f"container {container_id} is not running")

    async def _run(self, container_id: str, command: Sequence[str], limit_seconds: float) -> ExecResult:
        match command:
            case ["echo", *words]:
                return ExecResult(0, " ".join(words).encode() + b"\n")
            case ["exit", code, after]:
                seconds, result = float(after), ExecResult(int(code))
            case ["hang"]:
                seconds, result = math.inf, ExecResult(0)
            case _:
                return ExecResult(127, b"", b"not found\n")
        if await self._world.ends_within(container_id, min(seconds, limit_seconds)):
            return ExecResult(SIGKILL_CODE)
        if seconds > limit_seconds:
            raise RuntimeTimeout(f"command {command} timed out: context deadline exceeded")
        return result

    async def _check(self, container_id: str, said: Sequence[str], limit_seconds: int) -> ExecResult:
        kind, behaviour = split_kind(said)
        late = answers_after(behaviour) > limit_seconds > 0
        await trio.sleep(limit_seconds if late else answers_after(behaviour))
        if behaviour[0] == "odd" and self._chance.random() < 0.5:
            raise RuntimeFailure("failed to exec in container: simulated failure")
        well = not late and is_well(behaviour, self._world.ran_seconds(container_id))
        if kind:
            self._listener(container_id, kind, well)
        if late:
            raise RuntimeTimeout(f"failed to exec in container: timeout {limit_seconds}s exceeded")
        return ExecResult(0) if well else ExecResult(1, b"", b"ill\n")

    async def container_stats(self) -> Sequence[ContainerStats]:
        """Each container that runs uses a tenth of a processor and a megabyte."""
        await self._receive("ListContainerStats")
        now_ns = self._world.now_ns()
        running = [c for c in self._world.all_containers() if c.state is ContainerState.RUNNING]
        return [
            ContainerStats(
                c.id,
                Usage(now_ns, (now_ns - c.started_at) // 10, 1 << 20, 1 << 20, 1 << 20),
                FsUsage(now_ns, 4096, 1),
            )
            for c in running
        ]

    async def checkpoint_container(self, container_id: str, path: str, limit_seconds: int) -> None:
        """There is nothing to write. Raises NotImplementedByRuntime, like many runtimes."""
        await self._receive("CheckpointContainer", container_id)
        raise NotImplementedByRuntime("unknown method CheckpointContainer")

    async def reopen_log(self, container_id: str) -> None:
        """There are no log files; the container must exist and run."""
        await self._receive("ReopenContainerLog", container_id)
        if self._world.container(container_id).state is not ContainerState.RUNNING:
            raise RuntimeFailure(f"container {container_id} is not running")

    @asynccontextmanager
    async def events(self) -> AsyncGenerator[AsyncIterator[ContainerEvent], None]:
        """Events of the world from now on; dropped when the channel is full. Raises NotImplementedByRuntime where the
        world has a runtime without events."""
        await self._receive("GetContainerEvents")
        if not self._world.sends_events:
            raise NotImplementedByRuntime("unknown method GetContainerEvents")
        send, receive = trio.open_memory_channel[ContainerEvent](EVENTS_WAITING_MAX)

        def notify(uid: str, id_: str) -> None:
            if self._problems.loses_stream():
                send.close()
            if self._problems.loses_event():
                return
            try:
                send.send_nowait(ContainerEvent(uid, id_, 0, 0))
            except (trio.WouldBlock, trio.ClosedResourceError):
                return

        self._world.watchers.append(notify)
        try:
            async with receive:
                yield receive
        finally:
            self._world.watchers.remove(notify)
