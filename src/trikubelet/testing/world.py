"""The containers of one simulated node. They are here and not in the runtime object, so they outlive the agent.

A container's behaviour is written in its command, as if it were a program: ``run`` runs until stopped, ``exit CODE
AFTER`` ends by itself, ``drains`` exits 0 when it is stopped, ``stubborn`` ignores the stop signal. Nothing runs in the
background: the effect of time on a container is computed when it is read.

The world is also the witness. It keeps a trace of all calls, and raises InvariantBroken at once when the agent violates
a rule, whatever the seed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import trio

from trikubelet.core.names import CONTAINER_HASH, CONTAINER_TERMINATION_PATH
from trikubelet.kit.barrier import InvariantBroken
from trikubelet.model.runtime import ContainerState, ContainerStatus, HeldResources, SandboxState, SandboxStatus
from trikubelet.model.runtime_config import NamespaceMode
from trikubelet.model.runtime_errors import InvalidArgument, NotFound, RuntimeFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trikubelet.model.runtime_config import ContainerConfig, LinuxResources, SandboxConfig

EPOCH_NS = 1_800_000_000 * 10**9
LIST_LAG_SECONDS = 0.01
"""How long a list reports a stopped sandbox as ready, in seconds, like containerd's since 2.0: its status is read from
the sandbox, and the list from the record at its exit event."""
SIGTERM_CODE, SIGKILL_CODE = 143, 137


def wall_ns() -> int:
    """Wall time that follows Trio's clock."""
    return EPOCH_NS + int(trio.current_time() * 10**9)


def held(resources: LinuxResources) -> HeldResources | None:
    """The limits of a container as a runtime reports them."""
    amounts = HeldResources(
        resources.cpu_period_us, resources.cpu_quota_us, resources.cpu_shares, resources.memory_limit_bytes
    )
    return amounts if any(amounts) else None


@dataclass(slots=True)
class Run:
    """The start and end of a container's run, on Trio's clock."""

    began_at: float
    ended_at: float = math.inf


@dataclass(slots=True)
class _Container:
    status: ContainerStatus
    config: ContainerConfig
    ends_at: float | None = None
    exit_code: int = 0
    run: Run | None = None


@dataclass(slots=True)
class Command:
    """A command in a container. ``ended_at``: when it ended or was cancelled, on Trio's clock; ``is_over``: its result
    was returned to the caller; ``failed``: without success."""

    command: tuple[str, ...]
    began_at: float
    ended_at: float = math.inf
    is_over: bool = False
    failed: bool = False


@dataclass(slots=True)
class World:
    """Owns every sandbox and container of the node."""

    sandboxes: dict[str, SandboxStatus] = field(default_factory=dict)
    sandbox_configs: dict[str, SandboxConfig] = field(default_factory=dict)
    containers: dict[str, _Container] = field(default_factory=dict)
    trace: list[str] = field(default_factory=list)
    watchers: list[Callable[[str, str], None]] = field(default_factory=list)
    keeps_trace: bool = True
    sends_events: bool = True
    """Its runtime has container events."""
    now_ns: Callable[[], int] = wall_ns
    """The current time, in nanoseconds since the epoch; a test whose clock jumps sets it here."""
    uids: dict[str, str] = field(default_factory=dict)
    """The pod UID of every sandbox and container that ever existed, by id."""
    commands: dict[str, list[Command]] = field(default_factory=dict)
    """The commands run in each container that ever existed, by its id."""
    runs: dict[tuple[str, str], list[Run]] = field(default_factory=dict)
    """The runs of the containers of each name, by the pod's UID and that name, first to last."""
    booted_ns: int = 0
    """When the machine started the last time, in nanoseconds since the epoch; 0 until it reboots."""
    _made: int = 0
    _listed_ready_until: dict[str, float] = field(default_factory=dict)

    def note(self, text: str) -> None:
        """One line of the trace."""
        if self.keeps_trace:
            self.trace.append(f"{trio.current_time():9.3f} {text}")

    def _id(self, kind: str) -> str:
        self._made += 1
        return f"{kind}{self._made:06d}"

    # ---- sandboxes ----

    def run_sandbox(self, config: SandboxConfig) -> str:
        """Create a ready sandbox."""
        alive = [s.id for s in self.sandboxes.values() if s.uid == config.uid and s.state is SandboxState.READY]
        if any(s.uid == config.uid and s.attempt == config.attempt for s in self.sandboxes.values()):
            raise RuntimeFailure(f'name "{config.name}_{config.uid}_{config.attempt}" is reserved')
        if alive:
            raise InvariantBroken(f"pod {config.name} gets a second live sandbox beside {alive}")
        if sharers := [s.name for s in self.sandboxes.values() if self._has_users_of(config, s)]:
            raise InvariantBroken(f"pod {config.name} gets users that {', '.join(sharers)} has")
        host_network = config.security.namespaces.network is NamespaceMode.NODE
        sandbox_id = self._id("s")
        self.uids[sandbox_id] = config.uid
        self.sandboxes[sandbox_id] = SandboxStatus(
            id=sandbox_id,
            uid=config.uid,
            name=config.name,
            namespace=config.namespace,
            attempt=config.attempt,
            state=SandboxState.READY,
            created_at=self.now_ns() + self._made,
            ips=() if host_network else (f"10.88.{self._made // 250}.{self._made % 250 + 1}",),
            host_network=host_network,
        )
        self.sandbox_configs[sandbox_id] = config
        self.note(f"run sandbox {sandbox_id} of {config.name}, attempt {config.attempt}")
        self._notify(config.uid, sandbox_id)
        return sandbox_id

    def _has_users_of(self, config: SandboxConfig, sandbox: SandboxStatus) -> bool:
        ours = config.security.namespaces.users
        theirs = self.sandbox_configs[sandbox.id].security.namespaces.users
        if ours is None or theirs is None or sandbox.state is not SandboxState.READY:
            return False
        return max(ours.first, theirs.first) < min(ours.first + ours.length, theirs.first + theirs.length)

    def stop_sandbox(self, sandbox_id: str) -> None:
        """Stop a sandbox, killing its running containers."""
        sandbox = self.sandbox(sandbox_id)
        for container in list(self.containers.values()):
            if container.status.sandbox_id == sandbox_id:
                self.end(container.status.id, SIGKILL_CODE)
        if sandbox.state is SandboxState.READY:
            self.sandboxes[sandbox_id] = replace(sandbox, state=SandboxState.NOTREADY, ips=())
            self._listed_ready_until[sandbox_id] = trio.current_time() + LIST_LAG_SECONDS
            self.note(f"stop sandbox {sandbox_id} of {sandbox.name}")
            self._notify(sandbox.uid, sandbox_id)

    def listed_state(self, sandbox: SandboxStatus) -> SandboxState:
        """Return the state of a sandbox in a list, which may be that of a moment ago."""
        lags = trio.current_time() < self._listed_ready_until.get(sandbox.id, -math.inf)
        return SandboxState.READY if lags else sandbox.state

    def remove_sandbox(self, sandbox_id: str) -> None:
        """Remove a sandbox with its containers."""
        sandbox = self.sandboxes.get(sandbox_id)
        if sandbox is None:
            return
        self.stop_sandbox(sandbox_id)
        for container in list(self.containers.values()):
            if container.status.sandbox_id == sandbox_id:
                del self.containers[container.status.id]
        del self.sandboxes[sandbox_id], self.sandbox_configs[sandbox_id]
        self._listed_ready_until.pop(sandbox_id, None)
        self.note(f"remove sandbox {sandbox_id} of {sandbox.name}")
        self._notify(sandbox.uid, sandbox_id)

    def sandbox(self, sandbox_id: str) -> SandboxStatus:
        """One sandbox. Raises NotFound."""
        if sandbox_id not in self.sandboxes:
            raise NotFound(f"sandbox {sandbox_id!r} not found")
        return self.sandboxes[sandbox_id]

    # ---- containers ----

    def create_container(self, sandbox_id: str, config: ContainerConfig) -> str:
        """Create a container, not started."""
        sandbox = self.sandbox(sandbox_id)
        if sandbox.state is not SandboxState.READY:
            raise RuntimeFailure(f"sandbox {sandbox_id} is not running")
        if config.command[:1] == ("unmakeable",):
            raise InvalidArgument("this container cannot be made")
        if any(
            c.status.sandbox_id == sandbox_id and c.status.name == config.name and c.status.attempt == config.attempt
            for c in self.containers.values()
        ):
            raise RuntimeFailure(f'name "{config.name}_{config.attempt}" is reserved')
        if config.security.namespaces.users != self.sandbox_configs[sandbox_id].security.namespaces.users:
            raise InvalidArgument("the container's users are not its sandbox's")
        container_id = self._id("c")
        self.uids[container_id] = sandbox.uid
        status = ContainerStatus(
            id=container_id,
            name=config.name,
            attempt=config.attempt,
            state=ContainerState.CREATED,
            created_at=self.now_ns() + self._made,
            image=config.user_specified_image,
            image_ref=config.image,
            log_path=f"{self.sandbox_configs[sandbox_id].log_directory or '/logs'}/{config.log_path}",
            hash=config.annotations.get(CONTAINER_HASH, ""),
            termination_path=config.annotations.get(CONTAINER_TERMINATION_PATH, ""),
            sandbox_id=sandbox_id,
            resources=held(config.resources),
        )
        self.containers[container_id] = _Container(status, config)
        self.note(f"create {container_id} {sandbox.name}/{config.name}, attempt {config.attempt}")
        self._notify(sandbox.uid, container_id)
        return container_id

    def start_container(self, container_id: str) -> None:
        """Start a created container."""
        container = self._container(container_id)
        if container.status.state is not ContainerState.CREATED:
            raise RuntimeFailure(f"container {container_id} is {container.status.state.name}")
        sandbox = self.sandbox(container.status.sandbox_id)
        twins = [c.id for c in self.running_of(sandbox.uid) if c.name == container.status.name]
        if twins:
            raise InvariantBroken(f"container {sandbox.name}/{container.status.name} runs already, as {twins[0]}")
        command = container.config.command or ("run",)
        if command[0] == "unstartable":
            container.status = replace(
                container.status,
                state=ContainerState.EXITED,
                exit_code=128,
                reason="StartError",
                started_at=self.now_ns(),
                finished_at=self.now_ns(),
            )
            raise RuntimeFailure("failed to start containerd task: executable file not found")
        container.status = replace(
            container.status,
            state=ContainerState.RUNNING,
            # Creation times differ by nanoseconds; nothing starts before it was created.
            started_at=max(self.now_ns(), container.status.created_at),
        )
        container.run = Run(trio.current_time())
        self.runs.setdefault((sandbox.uid, container.status.name), []).append(container.run)
        if command[0] == "exit":
            container.exit_code = int(command[1])
            container.ends_at = trio.current_time() + float(command[2])
        self.note(f"start {container_id} {sandbox.name}/{container.status.name}")
        self._notify(sandbox.uid, container_id)

    def roll_back_start(self, container_id: str) -> None:
        """Roll back the last start, because its caller is gone: containerd then reports a container that ended without
        ever having run (see ``cri.from_wire``)."""
        container = self.containers.get(container_id)
        if container is None or container.run is None:
            return
        self.note(f"   the start of {container_id} is taken back")
        self.runs[self.uids[container_id], container.status.name].remove(container.run)
        container.run = container.ends_at = None
        container.status = replace(
            container.status,
            state=ContainerState.EXITED,
            exit_code=128,
            reason="StartError",
            message="failed to start containerd task: context canceled",
            started_at=0,
            finished_at=self.now_ns(),
        )
        self.note(f"the start of {container_id} {container.status.name} is taken back")
        self._notify(self.uids[container_id], container_id)

    def stop_seconds(self, container_id: str, grace_seconds: int) -> float:
        """Return how long the container will take to stop, in seconds."""
        command = self._container(container_id).config.command or ("run",)
        return float(grace_seconds) if command[0] == "stubborn" else min(0.2, grace_seconds)

    def stop_code(self, container_id: str) -> int:
        """Return the container's exit code when the stop signal ends it."""
        return 0 if self._container(container_id).config.command[:1] == ("drains",) else SIGTERM_CODE

    def end(self, container_id: str, exit_code: int) -> None:
        """The container ends now, if it runs."""
        container = self.containers.get(container_id)
        if container is None or container.status.state not in (ContainerState.RUNNING, ContainerState.UNKNOWN):
            return
        self._finish(container, exit_code, self.now_ns())

    def hold(self, container_id: str, resources: LinuxResources) -> None:
        """Change a running container's limits. Watchers are not notified: runtimes have no event for it."""
        container = self._container(container_id)
        container.status = replace(container.status, resources=held(resources))
        self.note(f"{container_id} {container.status.name} is held to {container.status.resources}")

    def lose_track(self, container_id: str) -> None:
        """Let the runtime forget whether the container runs. It does not."""
        container = self.containers[container_id]
        container.status = replace(container.status, state=ContainerState.UNKNOWN)
        self.note(f"{container_id} {container.status.name} is in unknown state")
        self._notify(self.uids[container.status.id], container_id)

    def reboot(self) -> None:
        """Reboot the machine: everything still exists and nothing runs."""
        self.note("the machine reboots")
        self.booted_ns = self.now_ns() + self._made
        for sandbox_id in list(self.sandboxes):
            self.stop_sandbox(sandbox_id)

    def remove_container(self, container_id: str) -> None:
        """Remove a container."""
        container = self.containers.pop(container_id, None)
        if container is not None:
            self.note(f"remove {container_id} {container.status.name}")
            self._notify(self.uids[container.status.id], container_id)

    # ---- commands ----

    def command_begins(self, container_id: str, command: Sequence[str]) -> Command:
        """Start a command in a container."""
        begun = Command(tuple(command), trio.current_time())
        self.commands.setdefault(container_id, []).append(begun)
        return begun

    async def ends_within(self, container_id: str, seconds: float) -> bool:
        """Wait for the end of a running container, no longer than that. Return true if it ended."""
        ended = trio.Event()

        def look(_uid: str, id_: str) -> None:
            held = self.containers.get(container_id)
            if id_ == container_id and (held is None or held.status.state is not ContainerState.RUNNING):
                ended.set()

        ends_at = self.containers[container_id].ends_at
        deadline = trio.current_time() + seconds
        self.watchers.append(look)
        try:
            with trio.move_on_at(deadline if ends_at is None else min(deadline, ends_at)):
                await ended.wait()
        finally:
            self.watchers.remove(look)
        held = self.containers.get(container_id)
        return held is None or self._look(held).status.state is not ContainerState.RUNNING

    # ---- current state ----

    def container(self, container_id: str) -> ContainerStatus:
        """One container as it is now. Raises NotFound."""
        return self._container(container_id).status

    def ran_seconds(self, container_id: str) -> float:
        """Return how long a started container has run, in seconds. Raises NotFound."""
        status = self.container(container_id)
        return ((status.finished_at or wall_ns()) - status.started_at) / 10**9

    def all_containers(self) -> list[ContainerStatus]:
        """Every container as it is now."""
        return [self._look(container).status for container in list(self.containers.values())]

    def running_of(self, uid: str) -> list[ContainerStatus]:
        """The running containers of a pod."""
        found = (c for c in self.containers.values() if self.uids[c.status.id] == uid)
        return [c.status for c in map(self._look, found) if c.status.state is ContainerState.RUNNING]

    def last_attempt(self, uid: str, name: str) -> int:
        """The highest attempt among the pod's containers of that name, running or not; 0 where there is none."""
        mine = (c for id_, c in self.containers.items() if c.status.name == name and self.uids[id_] == uid)
        return max((c.status.attempt for c in mine), default=0)

    def _container(self, container_id: str) -> _Container:
        if container_id not in self.containers:
            raise NotFound(f"container {container_id!r} not found")
        return self._look(self.containers[container_id])

    def _look(self, container: _Container) -> _Container:
        """Apply the effect of time."""
        running = container.status.state is ContainerState.RUNNING
        if running and container.ends_at is not None and trio.current_time() >= container.ends_at:
            jumped_ns = self.now_ns() - wall_ns()
            self._finish(container, container.exit_code, EPOCH_NS + int(container.ends_at * 10**9) + jumped_ns)
        return container

    def _finish(self, container: _Container, exit_code: int, at_ns: int) -> None:
        if container.run is not None:
            container.run.ended_at = (at_ns + wall_ns() - self.now_ns() - EPOCH_NS) / 10**9
        container.status = replace(
            container.status,
            state=ContainerState.EXITED,
            exit_code=exit_code,
            finished_at=max(at_ns, container.status.started_at),
            reason="Completed" if exit_code == 0 else "Error",
        )
        self.note(f"{container.status.id} {container.status.name} ended with {exit_code}")
        self._notify(self.uids[container.status.id], container.status.id)

    def _notify(self, uid: str, id_: str) -> None:
        for watcher in self.watchers:
            watcher(uid, id_)
