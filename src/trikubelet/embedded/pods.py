"""Owns every sandbox and container of the embedded runtime; ``service`` calls it for each method of the CRI.

State changes in synchronous pieces; waits (for a command's start or end) are between them. Each running container has
one task, ``_attend``: it copies the container's output into its log and records its exit.

When the agent ends, the containers end (``keeper``). The next agent finds the ended ones, as after a reboot of a
machine, because each was recorded on the disk before it started (``disk_records``).
"""

from __future__ import annotations

import logging
import os
import signal
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.embedded import spec
from trikubelet.embedded.commands import DRAIN_SECONDS_MAX, START_SECONDS_MAX
from trikubelet.embedded.disk_records import CONTAINERS_MAX, SANDBOXES_MAX
from trikubelet.embedded.link import StartGivenUp
from trikubelet.embedded.log import ContainerLog
from trikubelet.embedded.recorder import Recorder
from trikubelet.embedded.records import (
    CUT_EXIT_CODE,
    CUT_MESSAGE,
    Container,
    Sandbox,
    remembered_container,
    remembered_sandbox,
)
from trikubelet.embedded.spawning import READ_BYTES, new_id, pipe_in, spawn_piped, what_is_there
from trikubelet.model.runtime import AGENT_STOPPED
from trikubelet.model.runtime_errors import InvalidArgument, NotFound, ResourceExhausted, RuntimeFailure, RuntimeTimeout

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from trikubelet.cri.event_board import EventBoard
    from trikubelet.embedded.commands import Listener
    from trikubelet.embedded.disk_records import DiskRecords, Remembered
    from trikubelet.embedded.link import Command, Isolation, KeeperLink
    from trikubelet.embedded.processes import ProcessLimits
    from trikubelet.ports import Clock

log = logging.getLogger(__name__)

KILL_SECONDS_MAX: Final = 10.0
"""From SIGKILL to the exit; a process that takes longer hangs in the kernel."""

START_ERROR_CODE: Final = 128

T = TypeVar("T")


class Pods:
    """The runtime's whole state. ``nursery`` holds the containers' tasks; ``stopping`` is set when the agent stops."""

    def __init__(
        self,
        link: KeeperLink,
        machine: spec.Machine,
        events: EventBoard,
        clock: Clock,
        nursery: trio.Nursery,
        addresses: tuple[str, ...],
        limits: ProcessLimits,
        records: DiskRecords,
        stopping: trio.Event,
    ) -> None:
        self._link = link
        self._machine = machine
        self._events = events
        self._clock = clock
        self._nursery = nursery
        self._addresses = addresses
        self._limits = limits
        self._stopping = stopping
        self.sandboxes: dict[str, Sandbox] = {}
        self.containers: dict[str, Container] = {}
        self._recorder = Recorder(records, self.containers, clock)

    def restore(self, remembered: Collection[Remembered]) -> None:
        """Restore the sandboxes and containers of an earlier agent. None of them runs."""
        for one in remembered:
            sandbox = remembered_sandbox(one.sandbox)
            self.sandboxes[sandbox.id] = sandbox
            for status in one.containers:
                container = remembered_container(sandbox, status, self._clock.now_ns())
                self.containers[container.id] = container
                if not container.recorded.is_set():  # otherwise its end would be another at each start
                    self._nursery.start_soon(self._recorder.ended, container)

    # ---- sandboxes ----

    async def run_sandbox(self, config: pb.PodSandboxConfig, handler: str) -> Sandbox:
        """Return a new sandbox, ready and recorded. Raises InvalidArgument, ResourceExhausted, and RuntimeFailure if
        its name is taken or it cannot be recorded."""
        if handler:
            raise InvalidArgument(f"runtime handler {handler}: the embedded runtime has none")
        if config.linux.sysctls:
            raise InvalidArgument(
                f"sysctls {', '.join(config.linux.sysctls)}: pods of the embedded runtime share the machine's network "
                "and must not change its settings; use containerd for this pod"
            )
        options = config.linux.security_context.namespace_options
        if options.userns_options.uids:
            raise InvalidArgument(
                "users of its own (hostUsers: false): pods of the embedded runtime have the machine's; use containerd "
                "for this pod"
            )
        if len(self.sandboxes) >= SANDBOXES_MAX:
            raise ResourceExhausted(f"the embedded runtime keeps no more than {SANDBOXES_MAX} sandboxes")
        about = config.metadata
        for other in self.sandboxes.values():
            if other.config.metadata == about:
                name = f"{about.name}_{about.namespace}_{about.uid}_{about.attempt}"
                raise RuntimeFailure(f'name "{name}" is reserved for "{other.id}"')
        host_network = options.network == pb.NODE
        # The pod shares the machine's network in any case. One that requested a network of its own gets the machine's
        # addresses as its own, at which its servers can be reached.
        ips = () if host_network else self._addresses
        sandbox = Sandbox(new_id(), config, self._clock.now_ns(), handler, ips)
        self.sandboxes[sandbox.id] = sandbox  # before the wait, so that its name is taken
        try:
            await self._recorder.sandbox_made(sandbox)
        except RuntimeFailure:
            del self.sandboxes[sandbox.id]
            raise
        self._publish(sandbox, sandbox.id, pb.CONTAINER_CREATED_EVENT)
        self._publish(sandbox, sandbox.id, pb.CONTAINER_STARTED_EVENT)
        return sandbox

    def sandbox(self, id_: str) -> Sandbox:
        """One sandbox. Raises NotFound."""
        return _find(self.sandboxes, id_, "sandbox")

    async def stop_sandbox(self, id_: str) -> None:
        """Stop a sandbox and kill its running containers; it is not ready any more. Raises NotFound, RuntimeTimeout."""
        sandbox = self.sandbox(id_)
        was_ready, sandbox.ready = sandbox.ready, False  # before the first wait: nothing is started in it from now on
        for container in self.of_sandbox(id_):
            await self._kill(container)
        if was_ready:
            self._publish(sandbox, sandbox.id, pb.CONTAINER_STOPPED_EVENT)

    async def remove_sandbox(self, id_: str) -> None:
        """Remove a sandbox with its containers. Does nothing when there is none. Raises RuntimeTimeout."""
        try:
            sandbox = self.sandbox(id_)
        except NotFound:
            return
        await self.stop_sandbox(sandbox.id)
        containers = self.of_sandbox(sandbox.id)
        for container in containers:
            self._forget(container)
        if self.sandboxes.pop(sandbox.id, None):
            self._publish(sandbox, sandbox.id, pb.CONTAINER_DELETED_EVENT)
        await self._recorder.sandbox_removed(sandbox, containers)

    def of_sandbox(self, id_: str) -> list[Container]:
        """The containers of one sandbox."""
        return [c for c in self.containers.values() if c.sandbox.id == id_]

    # ---- containers ----

    def create_container(self, sandbox_id: str, config: pb.ContainerConfig, within: pb.PodSandboxConfig) -> Container:
        """Return a new container, not started. Raises NotFound, InvalidArgument, ResourceExhausted, and RuntimeFailure
        if its name is taken."""
        sandbox = self.sandbox(sandbox_id)
        if not sandbox.ready:
            raise RuntimeFailure(f"sandbox {sandbox.id} is not ready")
        if len(self.containers) >= CONTAINERS_MAX:
            raise ResourceExhausted(f"the embedded runtime keeps no more than {CONTAINERS_MAX} containers")
        about = config.metadata
        for other in self.of_sandbox(sandbox.id):
            if other.config.metadata == about:
                raise RuntimeFailure(f'name "{about.name}_{about.attempt}" is reserved for "{other.id}"')
        directory = within.log_directory or sandbox.config.log_directory
        container = Container(
            id=new_id(),
            sandbox=sandbox,
            config=config,
            spec=spec.describe(config, sandbox.config, self._machine),
            image=config.image.image,
            stop_signal=spec.stop_signal(config),
            log_path=os.path.join(directory, config.log_path) if directory and config.log_path else "",
            created_at=self._clock.now_ns(),
        )
        self.containers[container.id] = container
        self._publish(sandbox, container.id, pb.CONTAINER_CREATED_EVENT)
        return container

    def container(self, id_: str) -> Container:
        """One container. Raises NotFound."""
        return _find(self.containers, id_, "container")

    def running(self, id_: str) -> Container:
        """One running container. Raises NotFound, RuntimeFailure."""
        container = self.container(id_)
        if container.state != pb.CONTAINER_RUNNING:
            raise RuntimeFailure(f"container {container.id} is not running")
        return container

    async def start_container(self, id_: str) -> None:
        """Run a created container's command. Raises NotFound, RuntimeFailure if it cannot be run, and RuntimeTimeout if
        it was not in time: the container has then exited, with code 128 and the reason StartError. One that cannot be
        recorded stays created, and may be started again."""
        container = self.container(id_)
        if container.state != pb.CONTAINER_CREATED or container.starting:
            raise RuntimeFailure(f"container {container.id} has been started already")
        if not container.sandbox.ready:
            raise RuntimeFailure(f"sandbox {container.sandbox.id} is not ready")
        container.starting = True
        try:
            await self._link.start_within(START_SECONDS_MAX, partial(self._start, container))
        except StartGivenUp as given_up:
            self._failed(container, str(given_up))
            with trio.CancelScope(deadline=trio.current_time() + DRAIN_SECONDS_MAX, shield=True):
                await self._link.signal(container.id, signal.SIGKILL)
            raise given_up.answer(f"container {container.id}") from given_up

    async def _start(self, container: Container) -> None:
        try:
            # Before its process exists: whatever happens from here on, the next agent knows that it may have run.
            await self._recorder.starting(container)
        except RuntimeFailure:
            container.not_started()
            raise
        try:
            container.log = ContainerLog(container.log_path, self._clock)
            container.spec["cgroup"] = self._limits.make(container.id)
            stdin, container.stdin = pipe_in() if container.config.stdin else (None, None)
            command, streams = await spawn_piped(self._link, container.id, container.spec, stdin=stdin)
        except (OSError, RuntimeFailure, ResourceExhausted) as error:
            self._failed(container, str(error))
            raise RuntimeFailure(f"container {container.config.metadata.name}: {error}") from error
        container.command = command
        container.settled.set()
        container.state, container.started_at = pb.CONTAINER_RUNNING, self._clock.now_ns()
        self._publish(container.sandbox, container.id, pb.CONTAINER_STARTED_EVENT)
        self._nursery.start_soon(self._attend, container, command, streams)

    def _failed(self, container: Container, message: str) -> None:
        now = self._clock.now_ns()
        container.state, container.exit_code, container.reason = pb.CONTAINER_EXITED, START_ERROR_CODE, "StartError"
        container.message, container.started_at, container.finished_at = message, now, now
        container.settled.set()
        self._close(container)

    async def _attend(self, container: Container, command: Command, streams: Sequence[trio.lowlevel.FdStream]) -> None:
        assert container.log is not None
        is_cut = False
        try:
            async with trio.open_nursery() as nursery:
                for name, stream in zip(("stdout", "stderr"), streams, strict=True):
                    nursery.start_soon(_pump, container.log, container.listeners, name, stream)
                code = await command.ended()
                # Checked now: an ended one may be written to the log for seconds after that. A container that ends once
                # the agent stops counts as interrupted, with or without a signal: a preStop hook may have ended it.
                is_cut = self._stopping.is_set()
                # Its descriptors may have been passed to a process that still runs.
                nursery.cancel_scope.deadline = trio.current_time() + DRAIN_SECONDS_MAX
        finally:
            container.log.close()
        container.reason = "Completed" if code == 0 else "Error"
        if is_cut:
            container.reason = AGENT_STOPPED
        if is_cut and code == 0:
            # It was interrupted, however cleanly it ended: the next agent must not count it as completed.
            code, container.message = CUT_EXIT_CODE, CUT_MESSAGE
        container.state, container.exit_code = pb.CONTAINER_EXITED, code
        container.finished_at = self._clock.now_ns()
        self._close(container)

    def _close(self, container: Container) -> None:
        if container.log is not None:
            container.log.close()
        self._limits.remove(container.id)
        container.close_stdin()
        for listener in container.listeners:
            listener.end()
        container.ended.set()
        self._nursery.start_soon(self._recorder.ended, container)
        self._publish(container.sandbox, container.id, pb.CONTAINER_STOPPED_EVENT)

    async def stop_container(self, id_: str, grace_seconds: int) -> None:
        """Send the stop signal, then SIGKILL after the grace period. Does nothing to a container that does not run.
        Raises NotFound, RuntimeTimeout."""
        container = self.container(id_)
        if container.state == pb.CONTAINER_RUNNING and grace_seconds > 0:
            await self._link.signal(container.id, container.stop_signal)
            with trio.move_on_after(grace_seconds):
                await container.ended.wait()
        await self._kill(container)

    async def _kill(self, container: Container) -> None:
        if container.starting:
            await container.settled.wait()
        if container.state != pb.CONTAINER_RUNNING:
            return
        await self._link.signal(container.id, signal.SIGKILL)
        with trio.move_on_after(KILL_SECONDS_MAX):
            await container.ended.wait()
            return
        raise RuntimeTimeout(f"container {container.id} was killed and does not end: it hangs in the kernel")

    async def remove_container(self, id_: str) -> None:
        """Remove a container, killing it when it runs. Does nothing when there is none. Raises RuntimeTimeout."""
        try:
            container = self.container(id_)
        except NotFound:
            return
        await self._kill(container)
        self._forget(container)
        await self._recorder.removed(container)

    def _forget(self, container: Container) -> None:
        if self.containers.pop(container.id, None):
            self._publish(container.sandbox, container.id, pb.CONTAINER_DELETED_EVENT)

    def reopen_log(self, id_: str) -> None:
        """Continue in a new file at the log's path. Raises NotFound and RuntimeFailure."""
        container = self.running(id_)
        assert container.log is not None
        try:
            container.log.reopen()
        except OSError as error:
            raise RuntimeFailure(f"cannot reopen {container.log_path}: {error.strerror}") from error

    # ---- the end ----

    async def farewell(self, seconds_max: float) -> None:
        """Stop every container, kill those that have not ended after ``seconds_max``, and wait until all ends are
        recorded. The caller may cancel it: they end with the keeper. If the keeper has ended before, none runs any
        more."""
        self._stopping.set()  # an agent that ended its pods before has set it
        unrecorded = [c for c in self.containers.values() if not c.recorded.is_set()]
        begun = [c for c in unrecorded if c.starting]
        try:
            for container in begun:
                await self._link.signal(container.id, container.stop_signal)
            with trio.move_on_after(seconds_max):
                for container in begun:
                    await container.ended.wait()
            for container in begun:
                await self._link.signal(container.id, signal.SIGKILL)
        except RuntimeFailure as error:
            log.debug("no farewell: %s", error)
            begun.clear()
        # Those of an earlier agent, too: their end was shown, and must be the same after the next start.
        for container in [*begun, *(c for c in unrecorded if c.ended.is_set())]:
            await container.recorded.wait()

    @property
    def isolation(self) -> Isolation:
        """Return the isolation of containers here."""
        return self._machine.isolation

    def _publish(self, sandbox: Sandbox, id_: str, kind: pb.ContainerEventType) -> None:
        self._events.publish(id_, kind, sandbox, self.of_sandbox(sandbox.id), self._clock.now_ns())


def _find(found: dict[str, T], id_: str, kind: str) -> T:
    """Find it by the whole id, or by a prefix, as operators type them."""
    if id_ in found:
        return found[id_]
    matches = [value for key, value in found.items() if id_ and key.startswith(id_)]
    if len(matches) != 1:
        raise NotFound(f'{kind} "{id_}": {"several ids begin so" if matches else "not found"}')
    return matches[0]


async def _pump(log: ContainerLog, listeners: Collection[Listener], name: str, stream: trio.lowlevel.FdStream) -> None:
    def write(data: bytes) -> None:
        log.feed(name, data)
        for listener in listeners:
            listener.put(name, data)

    try:
        async with stream:
            try:
                while data := await stream.receive_some(READ_BYTES):
                    write(bytes(data))
            except trio.Cancelled:
                if rest := what_is_there(stream):
                    write(rest)
                raise
    finally:
        log.finish(name)
