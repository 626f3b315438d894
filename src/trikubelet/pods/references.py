"""Asking for what a container's variables come from, right before the container is configured, and for the class of a
pod's runtime before its sandbox is.

    core: references ─► ConfigMaps, Secrets, services (ports.PodObjects), files (ports.Volumes) ─► EnvSources ─► core

All are asked side by side, but of a volume one file at a time. Of a file only the values that are named are kept, and
all files together may be only so large, for the same bytes may be there under thousands of names. What is not there is
reported as such: whether that matters is decided where the variables are made. Whoever asked for an object is woken
when it comes, so a pod that waits for one need not ask again by the clock.
"""

from __future__ import annotations

import errno
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.containers.allowance import TooLarge, of_env_files
from trikubelet.core.containers.env_file import EnvFile
from trikubelet.core.containers.environment import EnvSources, references
from trikubelet.core.containers.errors import ConfigError, SandboxConfigError
from trikubelet.core.containers.service_links import service_variables
from trikubelet.model.errors import ObjectUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from trikubelet.model.k8s import ConfigMap, Container, Pod, Secret
    from trikubelet.ports import PodObjects, Volumes

READ_SECONDS_MAX: Final = 10.0
"""For one file of variables. Only a disk that hangs takes longer."""


class References:
    """Follows a pod's and its containers' references. Owns no state."""

    def __init__(self, objects: PodObjects, volumes: Volumes) -> None:
        self._objects = objects
        self._volumes = volumes

    async def follow(self, pod: Pod, container: Container, volume_paths: Mapping[str, str]) -> EnvSources:
        """Everything the container's variables come from, as it is now; ``volume_paths``: host paths of the pod's
        volumes. Raises ConfigError where somebody who must be asked does not say."""
        needed = references(container)
        config_maps: dict[str, ConfigMap | None] = {}
        secrets: dict[str, Secret | None] = {}
        files: dict[tuple[str, str], EnvFile | OSError | None] = {}
        services: dict[str, str] = {}
        allowance = of_env_files()

        async def addresses() -> None:
            services.update(service_variables(pod, await self._objects.services(pod)))

        async def config_map(name: str) -> None:
            config_maps[name] = await self._objects.config_map(pod, name)

        async def secret(name: str) -> None:
            secrets[name] = await self._objects.secret(pod, name)

        async def files_of(volume: str) -> None:
            # One after another, for a volume is read by one thread at a time, so that one that hangs takes no more.
            for path, keys in ((path, keys) for (name, path), keys in needed.files.items() if name == volume):
                found = files[volume, path] = await self._file(volume_paths[volume], path, keys)
                if isinstance(found, EnvFile):
                    allowance.count(found.size, f"file {path} of volume {volume}")

        problem = await _side_by_side(
            addresses,
            *(partial(config_map, name) for name in needed.config_maps),
            *(partial(secret, name) for name in needed.secrets),
            *(partial(files_of, volume) for volume in {name: None for name, _ in needed.files if name in volume_paths}),
        )
        if problem:
            raise ConfigError(problem, container.name)
        return EnvSources(config_maps, secrets, files, services)

    async def runtime_handler(self, pod: Pod) -> str:
        """The runtime handler of the pod's class, "" for the default one (upstream: LookupRuntimeHandler). Raises
        SandboxConfigError where there is no such class, or nobody says whether."""
        name = pod.spec.runtime_class_name
        if not name:
            return ""
        try:
            found = await self._objects.runtime_class(pod, name)
        except ObjectUnavailable as error:
            raise SandboxConfigError(f"failed to lookup RuntimeClass {name}: {error}") from error
        if found is None:
            raise SandboxConfigError(f'runtimeclass.node.k8s.io "{name}" not found')
        return found.handler

    async def _file(self, volume_path: str, path: str, keys: Collection[str]) -> EnvFile | OSError | None:
        try:
            with trio.fail_after(READ_SECONDS_MAX):
                return await self._volumes.read_env_file(volume_path, path, keys)
        except FileNotFoundError:
            return None
        except OSError as error:
            return error
        except trio.TooSlowError:
            return OSError(errno.ETIMEDOUT, f"it cannot be read within {READ_SECONDS_MAX:g} s")


async def _side_by_side(*asks: Callable[[], Awaitable[None]]) -> str:
    """Ask all; what the first of those said, in their order, who could not answer, or answered too much."""
    problems = ["" for _ in asks]

    async def one(place: int, ask: Callable[[], Awaitable[None]]) -> None:
        try:
            await ask()
        except (ObjectUnavailable, TooLarge) as error:
            problems[place] = str(error)

    async with trio.open_nursery() as nursery:
        for place, ask in enumerate(asks):
            nursery.start_soon(one, place, ask)
    return next(filter(None, problems), "")
