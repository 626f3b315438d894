"""An agent's calls on the fake runtime's pods: the sandboxes and containers it creates, which are only simulated.

    create ──start──► running forever, or by its command ──stop, exit──► exited

Containers are not programs, but the command sets a container's behaviour: ``exit CODE [SECONDS]`` ends by itself,
``stubborn`` ignores the stop signal, ``unstartable`` cannot be started; any other runs until it is stopped.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from trikubelet.core.timestamps import rfc3339_nano
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.fake.images import image_id, image_ref
from trikubelet.fake.pods import new_id, pod_address
from trikubelet.fake.records import Container, Sandbox
from trikubelet.kit.plain_file import open_plain_to_append
from trikubelet.model.runtime_errors import NotFound, RuntimeFailure

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from trikubelet.fake.population import Population

KILLED_CODE: Final = 137
STOPPED_CODE: Final = 143
START_ERROR_CODE: Final = 128
LAST_SECONDS_MAX: Final = 365 * 86400.0
LOG_MODE: Final = 0o640

T = TypeVar("T", Sandbox, Container)


class FakePods:
    """Applies an agent's calls to ``population``. ``nursery`` holds the containers that end by themselves, ids are
    drawn by ``chance``."""

    def __init__(self, population: Population, nursery: trio.Nursery, chance: Random) -> None:
        self.population = population
        self._nursery = nursery
        self._chance = chance
        self._addresses = map(pod_address, count(len(population.sandboxes)))

    # ---- sandboxes ----

    def sandbox(self, id_: str) -> Sandbox:
        """One sandbox. Raises NotFound."""
        return _find(self.population.sandboxes, id_, "sandbox")

    def run_sandbox(self, config: pb.PodSandboxConfig, handler: str) -> Sandbox:
        """A new sandbox, ready. Raises RuntimeFailure when its name is taken."""
        about, population = config.metadata, self.population
        for other in population.pods.get(about.uid, {}).values():
            if other.metadata == about:
                name = f"{about.name}_{about.namespace}_{about.uid}_{about.attempt}"
                raise RuntimeFailure(f'name "{name}" is reserved for "{other.id}"')
        options = config.linux.security_context.namespace_options
        sandbox = Sandbox(
            id=new_id(self._chance),
            uid=about.uid,
            name=about.name,
            namespace=about.namespace,
            attempt=about.attempt,
            labels=dict(config.labels),
            annotations=dict(config.annotations),
            created_at=population.now_ns(),
            ip="" if options.network == pb.NODE else next(self._addresses),
            handler=handler,
            log_directory=config.log_directory,
            options=options,
        )
        population.add_sandbox(sandbox)
        return sandbox

    def stop_sandbox(self, id_: str) -> None:
        """Stop a sandbox with its running containers, at once. Raises NotFound."""
        self.population.end_sandbox(self.sandbox(id_), KILLED_CODE)

    def remove_sandbox(self, id_: str) -> None:
        """Remove a sandbox with its containers. Does nothing when there is none."""
        with suppress(NotFound):
            self.population.remove_sandbox(self.sandbox(id_))

    # ---- containers ----

    def container(self, id_: str) -> Container:
        """One container. Raises NotFound."""
        return _find(self.population.containers, id_, "container")

    def create_container(self, sandbox_id: str, config: pb.ContainerConfig, within: pb.PodSandboxConfig) -> Container:
        """A new container, not started. Raises NotFound, and RuntimeFailure in a sandbox that has ended or when its
        name is taken."""
        sandbox = self.sandbox(sandbox_id)
        if not sandbox.ready:
            raise RuntimeFailure(f"sandbox {sandbox.id} is not ready")
        about = config.metadata
        for other in sandbox.containers.values():
            if other.metadata == about:
                raise RuntimeFailure(f'name "{about.name}_{about.attempt}" is reserved for "{other.id}"')
        image = config.image.user_specified_image or config.image.image
        directory = within.log_directory or sandbox.log_directory
        container = Container(
            id=new_id(self._chance),
            sandbox=sandbox,
            name=about.name,
            attempt=about.attempt,
            image=image,
            image_ref=image_ref(image),
            image_id=image_id(config.image.image),
            labels=dict(config.labels),
            annotations=dict(config.annotations),
            created_at=self.population.now_ns(),
            mounts=tuple(config.mounts),
            log_path=os.path.join(directory, config.log_path) if directory and config.log_path else "",
            command=(*config.command, *config.args),
            resources=config.linux.resources if config.linux.HasField("resources") else None,
        )
        self.population.add_container(container)
        return container

    def start_container(self, id_: str) -> None:
        """Start a created container. Raises NotFound, and RuntimeFailure when it cannot start: it has exited then, with
        code 128 and the reason StartError."""
        container = self.container(id_)
        if container.state != pb.CONTAINER_CREATED:
            raise RuntimeFailure(f"container {container.id} has been started already")
        if not container.sandbox.ready:
            raise RuntimeFailure(f"sandbox {container.sandbox.id} is not ready")
        try:
            if container.command[:1] == ("unstartable",):
                raise OSError('its command is "unstartable"')
            write_log(container, "This container runs nowhere: the fake runtime only says that it does.")
        except OSError as error:
            why = f"container {container.name} cannot be started: {error}"
            self.population.end_container(container, START_ERROR_CODE, "StartError", why)
            raise RuntimeFailure(why) from error
        self.population.start_container(container)
        if (ending := _ending(container.command)) is not None:
            self._nursery.start_soon(self._end_later, container, *ending)

    async def stop_container(self, id_: str, grace_seconds: int) -> None:
        """The stop signal, and SIGKILL after the grace period where it is ignored. Raises NotFound."""
        container = self.container(id_)
        stubborn = container.command[:1] == ("stubborn",)
        if container.state == pb.CONTAINER_RUNNING and stubborn:
            await trio.sleep(max(grace_seconds, 0))
        self._end(container, KILLED_CODE if stubborn else STOPPED_CODE)

    def remove_container(self, id_: str) -> None:
        """Remove a container, killing it when it runs. Does nothing when there is none."""
        with suppress(NotFound):
            self.population.remove_container(self.container(id_))

    def update_resources(self, id_: str, resources: pb.LinuxContainerResources) -> None:
        """Change the reported limits of a running container. Raises NotFound, and RuntimeFailure when it does not
        run."""
        container = self.container(id_)
        if container.state != pb.CONTAINER_RUNNING:
            raise RuntimeFailure(f"container {container.id} does not run")
        self.population.hold_container(container, resources)

    def exit_container(self, id_: str, code: int) -> None:
        """End a running container on a user's request. Raises NotFound, and RuntimeFailure when it does not run."""
        container = self.container(id_)
        if container.state != pb.CONTAINER_RUNNING:
            raise RuntimeFailure(f"container {container.id} does not run")
        self._end(container, code)

    async def _end_later(self, container: Container, code: int, seconds: float) -> None:
        await trio.sleep(seconds)
        self._end(container, code)

    def _end(self, container: Container, code: int) -> None:
        """End a container that has not exited yet."""
        if container.state == pb.CONTAINER_RUNNING:
            self.population.end_container(container, code, "Error" if code else "Completed")
        elif container.state == pb.CONTAINER_CREATED:
            self.population.end_container(container, KILLED_CODE, "Error")


def write_log(container: Container, line: str) -> None:
    """Append a line to a container's log, in the CRI's format, if it has one. Raises OSError."""
    if container.log_path:
        Path(container.log_path).parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(open_plain_to_append(container.log_path, LOG_MODE), "w") as log:
            log.write(f"{rfc3339_nano(container.created_at)} stdout F {line}\n")


def _ending(command: tuple[str, ...]) -> tuple[int, float] | None:
    """The exit code of a command that ends by itself and after how many seconds; None for any other."""
    match command:
        case ["exit", code]:
            seconds = "0"
        case ["exit", code, seconds]:
            pass
        case _:
            return None
    try:
        return int(code) & 0xFF, min(max(float(seconds), 0.0), LAST_SECONDS_MAX)
    except ValueError:
        return None


def _find(things: Mapping[str, T], id_: str, what: str) -> T:
    try:
        return things[id_]
    except KeyError:
        raise NotFound(f"no {what} {id_}") from None
