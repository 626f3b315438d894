"""A container's environment: the variables from its spec, from ConfigMaps, Secrets and files, from the downward API and
from the cluster's services.

    envFrom, in order, a later one overriding        nothing in them is expanded
    env, in order, overriding those                  a value may refer to earlier ones, and to services: ``$(VAR)``
    services                                         override nothing

The referenced objects are read beforehand (``pods.references``) and passed as values. This module decides which of them
may be missing, in upstream's words (upstream: makeEnvironmentVariables).
"""

from __future__ import annotations

import base64
import binascii
from collections import ChainMap
from typing import TYPE_CHECKING

from msgspec import field

from trikubelet.core.containers.allowance import Allowance, of_container
from trikubelet.core.containers.downward import PodFields, resource_value
from trikubelet.core.containers.errors import ConfigError, missing
from trikubelet.core.containers.expansion import expand
from trikubelet.model.frozen import Discreet, Frozen

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from trikubelet.core.containers.env_file import EnvFile
    from trikubelet.core.containers.facts import NodeFacts
    from trikubelet.model.k8s import (
        ConfigMap,
        ConfigMapKeySelector,
        Container,
        EnvFromSource,
        EnvVar,
        EnvVarSource,
        FileKeySelector,
        Pod,
        Secret,
        SecretKeySelector,
    )


class EnvReferences(Frozen):
    """The references of a container's variables, each once, in the order of the spec. ``files``: volumes and paths in
    them, with the wanted keys of each."""

    config_maps: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    files: Mapping[tuple[str, str], Collection[str]] = field(default_factory=dict)


class EnvSources(Discreet):
    """The values of EnvReferences, None for missing ones, and the variables of the cluster's services. An unreadable
    file is represented by its error."""

    hidden = ("secrets", "files")

    config_maps: Mapping[str, ConfigMap | None] = field(default_factory=dict)
    secrets: Mapping[str, Secret | None] = field(default_factory=dict)
    files: Mapping[tuple[str, str], EnvFile | OSError | None] = field(default_factory=dict)
    services: Mapping[str, str] = field(default_factory=dict)


def references(container: Container) -> EnvReferences:
    """Return everything that a container's variables refer to."""
    sources = [variable.value_from for variable in container.env if variable.value_from is not None]
    maps = [one.config_map_ref for one in container.env_from] + [one.config_map_key_ref for one in sources]
    secrets = [one.secret_ref for one in container.env_from] + [one.secret_key_ref for one in sources]
    files: dict[tuple[str, str], dict[str, None]] = {}
    for ref in (one.file_key_ref for one in sources if one.file_key_ref is not None):
        files.setdefault((ref.volume_name, ref.path), {})[ref.key] = None
    return EnvReferences(
        tuple(dict.fromkeys(ref.name for ref in maps if ref is not None)),
        tuple(dict.fromkeys(ref.name for ref in secrets if ref is not None)),
        files,
    )


def environment(
    pod: Pod,
    container: Container,
    ips: tuple[str, ...],
    facts: NodeFacts,
    sources: EnvSources | None = None,
    volume_paths: Mapping[str, str] | None = None,
    allowance: Allowance | None = None,
) -> tuple[tuple[str, str], ...]:
    """Return names and values in order, each name once. ``volume_paths``: the host paths of the pod's volumes;
    ``allowance``: the limit for the container. Raises ConfigError for missing non-optional references, and above the
    limit."""
    fields, allowance = PodFields(pod, ips, facts), allowance or of_container()
    found = _Found(pod, container, fields, facts, sources or EnvSources(), volume_paths or {}, allowance)
    values: dict[str, str] = {}
    try:
        for number, source in enumerate(container.env_from):
            values.update(found.all_of(source, f"envFrom[{number}]"))
        known = ChainMap(values, dict(found.sources.services))
        for variable in container.env:
            value = found.value(variable, known)
            if value is not None:
                values[variable.name] = value
    except ValueError as error:
        raise ConfigError(str(error), container.name) from error
    services = found.sources.services.items()
    return (*values.items(), *((name, value) for name, value in services if name not in values))


class _Found(Frozen):
    """The sources of one container's values. All methods raise ValueError for missing non-optional references, and
    above the limit."""

    pod: Pod
    container: Container
    fields: PodFields
    facts: NodeFacts
    sources: EnvSources
    volume_paths: Mapping[str, str]
    allowance: Allowance

    def all_of(self, source: EnvFromSource, where: str) -> dict[str, str]:
        """Return the variables of a whole object. Every key makes a name, because names may contain almost any
        character."""
        data: Mapping[str, str] | None = {}
        if (config := source.config_map_ref) is not None:
            data = self._config_map(config.name, optional=config.optional)
        elif (secret := source.secret_ref) is not None:
            held = self._secret(secret.name, optional=secret.optional)
            data = None if held is None else {key: _text(secret.name, key, held[key]) for key in held}
        counted = self.allowance.counted
        # The name counts, too: a prefix may be as long as the pod, and is repeated for each key.
        return {counted(source.prefix + key, where): counted(value, where) for key, value in (data or {}).items()}

    def value(self, variable: EnvVar, known: Mapping[str, str]) -> str | None:
        """Return the value; None if the variable is left out."""
        source, where = variable.value_from, f"env {variable.name}"
        if source is None:
            return expand(variable.value, known, self.allowance, where)
        value = self._referred(source, where)
        return None if value is None else self.allowance.counted(value, where)

    def _referred(self, source: EnvVarSource, where: str) -> str | None:
        if source.field_ref is not None:
            path = source.field_ref.field_path
            try:
                return self.fields.value(path)
            except KeyError:
                raise ValueError(f"{where}: unsupported fieldPath: {path}") from None
            except ValueError as error:
                raise ValueError(f"{where}: {path}: {error}") from error
        if source.resource_field_ref is not None:
            return str(resource_value(self.pod, self.container, source.resource_field_ref, self.facts))
        if source.file_key_ref is not None:
            return self._of_file(source.file_key_ref)
        return self._of_object(source)

    def _of_object(self, source: EnvVarSource) -> str | None:
        if (config := source.config_map_key_ref) is not None:
            return self._picked("ConfigMap", self._config_map(config.name, optional=config.optional), config)
        if (secret := source.secret_key_ref) is not None:
            data = self._picked("Secret", self._secret(secret.name, optional=secret.optional), secret)
            return None if data is None else _text(secret.name, secret.key, data)
        return None

    def _picked(
        self, kind: str, data: Mapping[str, str] | None, ref: ConfigMapKeySelector | SecretKeySelector
    ) -> str | None:
        if data is not None and ref.key not in data and not ref.optional:
            raise ValueError(f"couldn't find key {ref.key} in {kind} {self.pod.metadata.namespace}/{ref.name}")
        return None if data is None else data.get(ref.key)

    def _config_map(self, name: str, *, optional: bool | None) -> Mapping[str, str] | None:
        held = self.sources.config_maps.get(name)
        if held is None and not optional:
            raise ValueError(missing(self.pod, "configmap", name))
        return None if held is None else held.data

    def _secret(self, name: str, *, optional: bool | None) -> Mapping[str, str] | None:
        held = self.sources.secrets.get(name)
        if held is None and not optional:
            raise ValueError(missing(self.pod, "secret", name))
        return None if held is None else held.data

    def _of_file(self, ref: FileKeySelector) -> str | None:
        if ref.volume_name not in self.volume_paths:
            raise ValueError(f'cannot find the volume "{ref.volume_name}" referenced by FileKeyRef')
        found = self.sources.files.get((ref.volume_name, ref.path))
        if found is None and ref.optional:
            return None
        if value := _of_env_file(found, ref):
            return value
        if ref.optional:  # an empty value counts as absent, like upstream
            return None
        path = f"{self.volume_paths[ref.volume_name]}/{ref.path}"
        raise ValueError(f'environment variable key "{ref.key}" not found in file "{path}"')


def _of_env_file(found: EnvFile | OSError | None, ref: FileKeySelector) -> str | None:
    """Return the value; the error adds the file and line to upstream's words, but never the content."""
    if isinstance(found, OSError):
        wrong = found.strerror or str(found)
    elif found is None:
        wrong = "there is no such file"
    elif ref.key in found.values or not found.wrong:
        return found.values.get(ref.key)
    else:
        wrong = found.wrong
    raise ValueError(f'couldn\'t parse env file "{ref.path}" of volume "{ref.volume_name}": {wrong}')


def _text(secret: str, key: str, data: str) -> str:
    """Return a Secret's value as that of a variable, which must be text (it is sent to the runtime as UTF-8)."""
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise ValueError(f'the value of key {key} of secret "{secret}" is not text') from None
