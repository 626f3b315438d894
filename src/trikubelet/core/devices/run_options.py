"""The additions to a container's configuration that its devices need, by the answers of their plugins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from trikubelet.model.devices import RunOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trikubelet.model.runtime_config import ContainerConfig

One = TypeVar("One")


def merged(answers: Iterable[RunOptions]) -> RunOptions:
    """Return the additions of several resources together. The first one of a name or container path counts, like
    upstream."""
    found = tuple(answers)
    return RunOptions(
        envs=_first((one for answer in found for one in answer.envs), lambda env: env[0]),
        mounts=_first((one for answer in found for one in answer.mounts), lambda mount: mount.container_path),
        devices=_first((one for answer in found for one in answer.devices), lambda device: device.container_path),
        annotations={key: value for answer in reversed(found) for key, value in answer.annotations.items()},
        cdi_devices=tuple(dict.fromkeys(name for answer in found for name in answer.cdi_devices)),
    )


def with_devices(config: ContainerConfig, options: RunOptions) -> ContainerConfig:
    """Return the configuration with the additions. The container's own variables and annotations come after them, so
    that they count; mounts and device nodes that it has at the same place are left as they are."""
    taken = {mount.container_path for mount in config.mounts}
    nodes = {device.container_path for device in config.devices}
    return replace(
        config,
        envs=(*options.envs, *config.envs),
        mounts=(*(mount for mount in options.mounts if mount.container_path not in taken), *config.mounts),
        devices=(*config.devices, *(device for device in options.devices if device.container_path not in nodes)),
        annotations={**options.annotations, **config.annotations},
        cdi_devices=(*config.cdi_devices, *options.cdi_devices),
    )


def _first(ones: Iterable[One], key: Callable[[One], str]) -> tuple[One, ...]:
    found: dict[str, One] = {}
    for one in ones:
        found.setdefault(key(one), one)
    return tuple(found.values())
