"""A ConfigMap and a Secret with the same value: they are added, changed and removed, and some pods need them to start.

One pair is in a simulated node's manifests, for static pods, and one, if the node is a member of a cluster, at the API
server (``ServerSettings``), for its pods. A pod uses them as a variable or as a volume. Their values are recorded with
the times. So the witness can check whether the variables a container starts with were current then, and at the end
whether each volume has the current value, by a record that is not the agent's.
"""

from __future__ import annotations

import base64
import math
import random
from typing import TYPE_CHECKING

import msgspec
import trio

from trikubelet.model import k8s
from trikubelet.model.api import CONFIG_MAPS, SECRETS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.core.containers.volume_files import Files
    from trikubelet.model.api import Resource
    from trikubelet.testing.apiserver.server import ApiServer
    from trikubelet.testing.world import World

SOURCE = "file"
UPDATE_GRACE_SECONDS = 15.0
"""Seconds from the change of a manifest to a container that starts with it: two slow calls, each settled."""
_NAME, _KEY, _NAMESPACE = "settings", "a", "default"
_REFERENCE = k8s.EnvVarSource(config_map_key_ref=k8s.ConfigMapKeySelector(name=_NAME, key=_KEY))
_OPTIONAL = k8s.VolumeProjection(config_map=k8s.ConfigMapProjection(name=_NAME, optional=True))
_SOURCES: tuple[dict[str, object], ...] = (
    {"config_map": k8s.ConfigMapVolumeSource(name=_NAME)},
    {"secret": k8s.SecretVolumeSource(secret_name=_NAME)},
    {"projected": k8s.ProjectedVolumeSource(sources=(_OPTIONAL,))},
)


class Settings:
    """Owns the current and earlier values of the two. Draws apart from the scenario, so that simulations without them
    stay the same. ``variable`` and ``volume``: the names of those made of them; ``update_seconds_max``: how long an
    agent may act on an earlier value."""

    where = SOURCE
    variable, volume = "SETTING", "settings"
    update_seconds_max = UPDATE_GRACE_SECONDS

    def __init__(self, seed: int, world: World) -> None:
        self._chance = random.Random(f"{self.variable} {seed}")  # noqa: S311 - a simulation's seed
        self._world = world
        self._said: list[tuple[float, str | None]] = [(-math.inf, None)]

    def lend(self, pod: k8s.Pod) -> k8s.Pod:
        """The pod, or the same with a container that needs the ConfigMap, or with a volume."""
        draw = self._chance.random()
        if draw > 0.5:
            return pod
        spec = pod.spec
        if draw > 0.25:
            volume = k8s.Volume(name=self.volume, **self._chance.choice(_SOURCES))  # type: ignore[arg-type] # one
            spec = msgspec.structs.replace(spec, volumes=(*spec.volumes, volume))
        else:
            first, *others = spec.containers
            first = msgspec.structs.replace(first, env=(k8s.EnvVar(name=self.variable, value_from=_REFERENCE),))
            spec = msgspec.structs.replace(spec, containers=(first, *others))
        return msgspec.structs.replace(pod, spec=spec)

    def happen(self) -> str | None:
        """Change them, or not. Return the source that changed, or None."""
        if self._chance.random() > 0.3:
            return None
        return self._say(None if self._chance.random() < 0.3 else f"{len(self._said)}")

    def calm(self) -> str:
        """Let them exist from now on. Return the source that changed."""
        return self._say(f"{len(self._said)}")

    def snapshot(self, source: str) -> tuple[k8s.ConfigMap | k8s.Secret, ...]:
        """The source's objects."""
        value = self._said[-1][1]
        return () if source != SOURCE or value is None else (_config_map(value), _secret(value))

    def wrong(self, container: k8s.Container, variables: Mapping[str, str]) -> str | None:
        """The error in the variables of a container that starts now, or None."""
        if all(variable.name != self.variable for variable in container.env):
            return None
        value = variables.get(self.variable)
        since = trio.current_time() - self.update_seconds_max
        ends = [at for at, _ in self._said[1:]] + [math.inf]
        recent = {said for (_, said), end in zip(self._said, ends, strict=True) if end >= since}
        if value is not None and value in recent:
            return None
        return f"begins with {self.variable}={value}, which no object has"

    def outdated(self, volumes: Mapping[str, Files]) -> str | None:
        """The first volume, by its path, that does not hold the current value, or None."""
        value = self._said[-1][1] or ""
        for path, files in volumes.items():
            held = {name: file.content for name, file in files.items()}
            if path.rpartition("/")[2] == self.volume and held != {_KEY: value.encode()}:
                return f"volume {path} holds {held}, and {self.where} says {value}"
        return None

    def _say(self, value: str | None) -> str:
        self._world.note(f"** {self.where} has {_NAME}: {value}")
        self._said.append((trio.current_time(), value))
        return SOURCE


class ServerSettings(Settings):
    """The same at an API server, where a node may be notified late: watches fall silent, servers lose their history."""

    where = "the API server"
    variable, volume = "SERVER_SETTING", "server-settings"
    update_seconds_max = math.inf

    def __init__(self, seed: int, world: World, server: ApiServer) -> None:
        super().__init__(seed, world)
        self._server = server

    def _say(self, value: str | None) -> str:
        before = self._said[-1][1]
        self._write(CONFIG_MAPS, before, value and _config_map(value))
        self._write(SECRETS, before, value and _secret(value))
        return super()._say(value)

    def _write(self, resource: Resource, before: str | None, body: object) -> None:
        if body and before:
            self._server.replace(resource, _NAME, body, _NAMESPACE)
        elif body:
            self._server.create(resource, body, _NAMESPACE)
        elif before:
            self._server.delete(resource, _NAME, _NAMESPACE)


def _meta() -> k8s.ObjectMeta:
    return k8s.ObjectMeta(name=_NAME, namespace=_NAMESPACE)


def _config_map(value: str) -> k8s.ConfigMap:
    return k8s.ConfigMap(api_version="v1", kind="ConfigMap", metadata=_meta(), data={_KEY: value})


def _secret(value: str) -> k8s.Secret:
    data = {_KEY: base64.b64encode(value.encode()).decode()}
    return k8s.Secret(api_version="v1", kind="Secret", metadata=_meta(), data=data)
