"""Reads the sources of a container's variables, right before the container is configured, and the runtime class of a
pod before its sandbox is.

    core: references ─► ConfigMaps, Secrets, services (ports.PodObjects), files (ports.Volumes) ─► EnvSources ─► core

All are requested concurrently, but only one file at a time per volume. Only the requested values of a file are kept,
and the total of all files is limited, because the same bytes may be there under thousands of names. Missing sources are
reported as such; the code that makes the variables decides if that matters. A pod that requested an object is woken
when it appears, so it need not poll.
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
"""The limit for one file of variables. Only a disk that hangs takes longer."""


class References:
    """Follows the references of pods and their containers. Owns no state."""

    def __init__(self, objects: PodObjects, volumes: Volumes) -> None:
        self._objects = objects
        self._volumes = volumes

    async def follow(self, pod: Pod, container: Container, volume_paths: Mapping[str, str]) -> EnvSources:
        """Return the present sources of the container's variables; ``volume_paths``: host paths of the pod's volumes.
        Raises ConfigError if a source does not answer."""
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
            # One after another, because one thread reads a volume at a time, so that one that hangs blocks no more
            # threads.
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
        """Return the runtime handler of the pod's class, "" for the default one (upstream: LookupRuntimeHandler).
        Raises SandboxConfigError if there is no such class, or if that is unknown."""
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
    """Await all calls; return the first error, in the order of the calls, of one that failed or exceeded its limit."""
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
