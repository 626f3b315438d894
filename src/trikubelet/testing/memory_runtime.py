"""A container runtime in memory (``ports.Runtime``, ``ports.Images``): the face of a ``World``, with troubles.

Its lists and statuses are real protobuf bytes, items and maps in an order drawn anew each time, as a real runtime's
are: whoever compares raw bytes is found out.
"""

from __future__ import annotations

import math
import random
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import trio

from trikubelet.core.names import POD_UID
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.model.runtime import (
    ContainerEvent,
    ContainerState,
    ExecResult,
    ImageInfo,
    RuntimeCondition,
    RuntimeHandler,
    RuntimeInfo,
    SandboxState,
)
from trikubelet.model.runtime_errors import (
    NotFound,
    NotImplementedByRuntime,
    RuntimeCallError,
    RuntimeFailure,
    RuntimeTimeout,
    RuntimeUnavailable,
)
from trikubelet.model.usage import ContainerStats, FsUsage, ImageStore, ImageStores, Usage
from trikubelet.testing.chance import Troubles
from trikubelet.testing.health import answers_after, is_well, split_kind, to_nobody
from trikubelet.testing.replies import container_reply, sandbox_reply, shuffled
from trikubelet.testing.side_by_side import statuses_side_by_side
from trikubelet.testing.world import SIGKILL_CODE, SIGTERM_CODE

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence

    from trikubelet.model.registry import Login
    from trikubelet.model.runtime import ContainerStatus, SandboxStatus, StandardStreams, Undecoded
    from trikubelet.model.runtime_config import ContainerConfig, LinuxResources, SandboxConfig
    from trikubelet.testing.health import Listener
    from trikubelet.testing.world import World

EVENTS_WAITING_MAX = 1000
KILLED = "whoever asked has been killed"


class MemoryRuntime:
    """One agent's connection to a world. A new agent makes a new one; the world stays.

    ``watcher`` is told of every call as it comes in, before anything is done: its CRI name and whom it is about;
    ``listener`` of what probes were answered."""

    def __init__(
        self,
        world: World,
        troubles: Troubles | None = None,
        chance: random.Random | None = None,
        watcher: Callable[[str, str], None] | None = None,
        listener: Listener = to_nobody,
    ) -> None:
        self._world = world
        self._troubles = troubles or Troubles()
        self._watcher = watcher
        self._listener = listener
        self._chance = chance or random.Random(0)  # noqa: S311 - a simulation's seed
        self._under_way: dict[trio.CancelScope, None] = {}  # in a set they would have another order in each process
        self._is_killed = False
        self.at_effect: dict[str, Callable[[], None]] = {}
        """What happens once, when the next call of that name has had its effect and is not answered."""

    def kill_caller(self) -> None:
        """The agent is killed: of no call under way does it hear the end, and it makes no other. What the call was for
        has been done, or not, or is taken back."""
        self._is_killed = True
        for call in self._under_way:
            call.cancel()

    async def _come(self, call: str, subject: str = "", *, may_hang: bool = True) -> None:
        if self._is_killed:
            await trio.lowlevel.checkpoint()
            raise RuntimeUnavailable(KILLED)
        self._world.note(f"{call} {subject}")
        if self._watcher is not None:
            self._watcher(call, subject)
        with self._as_long_as_it_lives():
            await self._troubles.before(call, may_hang=may_hang)

    async def _answer(self, call: str, undo: Callable[[], None] | None = None) -> None:
        """The way back. A runtime that notices that whoever asked is gone may ``undo`` what it has done, as containerd
        does; one that gives a call up settles it first."""
        if (meet := self.at_effect.pop(call, None)) is not None:
            meet()
        try:
            with self._as_long_as_it_lives():
                await self._troubles.after(call)
        except (trio.Cancelled, RuntimeUnavailable):
            if undo is not None and self._is_killed and self._chance.random() < 0.5:
                undo()
            raise

    @contextmanager
    def _as_long_as_it_lives(self) -> Iterator[None]:
        with trio.CancelScope() as call:
            if self._is_killed:
                call.cancel()
            self._under_way[call] = None
            try:
                yield
            finally:
                del self._under_way[call]
        if call.cancelled_caught:
            raise RuntimeUnavailable(KILLED)

    async def info(self) -> RuntimeInfo:
        """Always well, when it answers."""
        await self._come("Status")
        conditions = (RuntimeCondition("RuntimeReady", True), RuntimeCondition("NetworkReady", True))
        handlers = (RuntimeHandler("", user_namespaces=True),)
        return RuntimeInfo("memory", "1", "v1", conditions, handlers=handlers, supplemental_groups_policy=True)

    async def cgroup_driver(self) -> str:
        """That of the node in memory."""
        await self._come("RuntimeConfig")
        return "cgroupfs"

    async def list_sandboxes(self, pod_uid: str | None = None) -> Sequence[bytes]:
        """Every sandbox, in one chunk."""
        await self._come("ListPodSandbox", pod_uid or "")
        listed = [s for s in self._world.sandboxes.values() if pod_uid in (None, s.uid)]
        items = [
            pb.PodSandbox(
                id=s.id,
                metadata=pb.PodSandboxMetadata(name=s.name, uid=s.uid, namespace=s.namespace, attempt=s.attempt),
                state=s.state.value,  # type: ignore[arg-type] # protobuf's stubs want its own enum
                created_at=s.created_at,
                labels=shuffled(self._world.sandbox_configs[s.id].labels, self._chance),
            )
            for s in self._chance.sample(listed, len(listed))
        ]
        return [pb.ListPodSandboxResponse(items=items).SerializeToString()]

    async def list_containers(self, pod_uid: str | None = None) -> Sequence[bytes]:
        """Every container, in one chunk."""
        await self._come("ListContainers", pod_uid or "")
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
        await self._come("PodSandboxStatus", sandbox_id)
        status = self._world.sandbox(sandbox_id)
        config = self._world.sandbox_configs[sandbox_id]
        return sandbox_reply(status, self._chance, config.labels, config.annotations)

    async def container_status(self, container_id: str) -> Undecoded[ContainerStatus]:
        """One container. Raises NotFound."""
        await self._come("ContainerStatus", container_id)
        status = self._world.container(container_id)
        config = self._config(status)
        return container_reply(status, self._chance, config.labels, config.annotations)

    statuses = statuses_side_by_side

    def _config(self, status: ContainerStatus) -> ContainerConfig:
        return self._world.containers[status.id].config

    async def run_sandbox(self, config: SandboxConfig) -> str:
        """Create and start a sandbox; its id."""
        await self._come("RunPodSandbox", config.uid)
        made = self._world.run_sandbox(config)
        await self._answer("RunPodSandbox", partial(self._world.remove_sandbox, made))
        return made

    async def stop_sandbox(self, sandbox_id: str) -> None:
        """Stop a sandbox and its containers."""
        await self._come("StopPodSandbox", sandbox_id)
        self._world.stop_sandbox(sandbox_id)
        await self._answer("StopPodSandbox")

    async def remove_sandbox(self, sandbox_id: str) -> None:
        """Remove a sandbox and its containers."""
        await self._come("RemovePodSandbox", sandbox_id)
        self._world.remove_sandbox(sandbox_id)
        await self._answer("RemovePodSandbox")

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str:
        """Create a container; its id."""
        await self._come("CreateContainer", sandbox_id)
        made = self._world.create_container(sandbox_id, config)
        await self._answer("CreateContainer", partial(self._world.remove_container, made))
        return made

    async def start_container(self, container_id: str) -> None:
        """Start a created container."""
        await self._come("StartContainer", container_id)
        self._world.start_container(container_id)
        await self._answer("StartContainer", partial(self._world.give_start_up, container_id))

    async def stop_container(self, container_id: str, grace_seconds: int) -> None:
        """Stop signal, then SIGKILL after the grace."""
        await self._come("StopContainer", container_id)
        status = self._world.container(container_id)
        if status.state in (ContainerState.RUNNING, ContainerState.UNKNOWN):
            seconds = self._world.stop_seconds(container_id, grace_seconds)
            with self._as_long_as_it_lives():
                await trio.sleep(seconds)
            self._world.end(container_id, SIGKILL_CODE if math.isclose(seconds, grace_seconds) else SIGTERM_CODE)
        await self._answer("StopContainer")

    async def remove_container(self, container_id: str) -> None:
        """Remove a container; a running one is killed."""
        await self._come("RemoveContainer", container_id)
        self._world.end(container_id, SIGKILL_CODE)
        self._world.remove_container(container_id)
        await self._answer("RemoveContainer")

    async def update_resources(self, container_id: str, resources: LinuxResources) -> None:
        """Hold a container that runs to other amounts. Raises NotFound."""
        await self._come("UpdateContainerResources", container_id)
        self._must_run(container_id)
        self._world.hold(container_id, resources)
        await self._answer("UpdateContainerResources")

    async def exec_sync(self, container_id: str, command: Sequence[str], limit_seconds: int) -> ExecResult:
        """Answer ``echo`` as a shell would, ``check`` as ``testing.health`` says; do ``exit CODE AFTER`` and ``hang``,
        but no longer than their container runs; fail the rest with 127. Raises RuntimeTimeout when the limit is
        over."""
        if command[0] == "check":
            await self._come("ExecSync", container_id)
            self._must_run(container_id)
            return await self._check(container_id, command[1:], limit_seconds)
        told = self._world.command_begins(container_id, command)
        try:
            # Without a limit, a call that hangs is a command that does: a story that wants one asks for it.
            await self._come("ExecSync", container_id, may_hang=limit_seconds > 0)
            self._must_run(container_id)
            result = await self._run(container_id, command, limit_seconds or math.inf)
        except RuntimeCallError:
            told.is_over = told.failed = True
            raise
        finally:
            told.ended_at = trio.current_time()
        told.is_over, told.failed = True, result.exit_code != 0
        return result

    async def exec_url(self, container_id: str, command: Sequence[str], streams: StandardStreams) -> str:
        """A URL that nobody serves; the container must exist and run."""
        await self._come("Exec", container_id)
        self._must_run(container_id)
        return f"http://memory.invalid/exec/{container_id}"

    async def attach_url(self, container_id: str, streams: StandardStreams) -> str:
        """A URL that nobody serves; the container must exist and run."""
        await self._come("Attach", container_id)
        self._must_run(container_id)
        return f"http://memory.invalid/attach/{container_id}"

    async def port_forward_url(self, sandbox_id: str, ports: Sequence[int]) -> str:
        """A URL that nobody serves; the sandbox must exist and be ready."""
        await self._come("PortForward", sandbox_id)
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
        kind, words = split_kind(said)
        late = answers_after(words) > limit_seconds > 0
        await trio.sleep(limit_seconds if late else answers_after(words))
        if words[0] == "odd" and self._chance.random() < 0.5:
            raise RuntimeFailure("failed to exec in container: simulated failure")
        well = not late and is_well(words, self._world.ran_seconds(container_id))
        if kind:
            self._listener(container_id, kind, well)
        if late:
            raise RuntimeTimeout(f"failed to exec in container: timeout {limit_seconds}s exceeded")
        return ExecResult(0) if well else ExecResult(1, b"", b"ill\n")

    async def container_stats(self) -> Sequence[ContainerStats]:
        """Each container that runs uses a tenth of a processor and a megabyte."""
        await self._come("ListContainerStats")
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
        await self._come("CheckpointContainer", container_id)
        raise NotImplementedByRuntime("unknown method CheckpointContainer")

    async def reopen_log(self, container_id: str) -> None:
        """There are no log files; the container must exist and run."""
        await self._come("ReopenContainerLog", container_id)
        if self._world.container(container_id).state is not ContainerState.RUNNING:
            raise RuntimeFailure(f"container {container_id} is not running")

    @asynccontextmanager
    async def events(self) -> AsyncGenerator[AsyncIterator[ContainerEvent], None]:
        """What happens in the world from now on; dropped when nobody takes it. Raises NotImplementedByRuntime where the
        world has a runtime without events."""
        await self._come("GetContainerEvents")
        if not self._world.sends_events:
            raise NotImplementedByRuntime("unknown method GetContainerEvents")
        send, receive = trio.open_memory_channel[ContainerEvent](EVENTS_WAITING_MAX)

        def tell(uid: str, id_: str) -> None:
            if self._troubles.loses_stream():
                send.close()
            if self._troubles.loses_event():
                return
            try:
                send.send_nowait(ContainerEvent(uid, id_, 0, 0))
            except (trio.WouldBlock, trio.ClosedResourceError):
                return

        self._world.watchers.append(tell)
        try:
            async with receive:
                yield receive
        finally:
            self._world.watchers.remove(tell)


class MemoryImages:
    """An image service in memory: it has what it is given, and can pull what its registry has. ``private``: images
    that only certain logins may pull. ``pulls`` and ``logins`` are what it was asked for, call by call."""

    def __init__(
        self,
        present: Sequence[str] = (),
        registry: Sequence[str] = (),
        troubles: Troubles | None = None,
        private: Mapping[str, Collection[Login]] | None = None,
    ) -> None:
        self._present = set(present)
        self._registry = set(registry)
        self._private = private or {}
        self._troubles = troubles or Troubles()
        self.pulls: list[str] = []
        self.logins: list[Login | None] = []

    async def image_status(self, image: str) -> ImageInfo | None:
        """The image, or None."""
        await self._troubles.before("ImageStatus")
        return ImageInfo(f"sha256:{image}", (image,), size_bytes=1000) if image in self._present else None

    async def pull_image(self, image: str, sandbox: SandboxConfig | None = None, login: Login | None = None) -> str:
        """Pull an image; its reference. Raises NotFound, and RuntimeFailure for a login that will not do."""
        await self._troubles.before("PullImage")
        self.pulls.append(image)
        self.logins.append(login)
        if image in self._private and login not in self._private[image]:
            raise RuntimeFailure(f"{image}: {'insufficient_scope' if login else 'no basic auth credentials'}")
        if image not in self._registry and image not in self._private:
            raise NotFound(f"{image}: not found")
        self._present.add(image)
        return f"sha256:{image}"

    async def list_images(self) -> Sequence[ImageInfo]:
        """Every image on the node."""
        await self._troubles.before("ListImages")
        return [ImageInfo(f"sha256:{image}", (image,), size_bytes=1000) for image in sorted(self._present)]

    async def remove_image(self, image: str) -> None:
        """Remove an image."""
        await self._troubles.before("RemoveImage")
        self._present.discard(image)

    async def stores(self) -> ImageStores:
        """One place for everything."""
        await self._troubles.before("ImageFsInfo")
        store = ImageStore("/", FsUsage(0, 1000 * len(self._present), len(self._present)))
        return ImageStores((store,), (store,))
