"""The files of a volume that is made of data: configMap, secret, downwardAPI, and projected, which mixes them.

All four are lists of sources with one mode for their files, so ``sources_of`` reads each as if it were projected. What
a source refers to is fetched by ``volumes.content``; here it becomes files, with upstream's rules of what may be
missing and its words for what may not. ``volumes.atomic_writer`` puts them on the disk.
"""

from __future__ import annotations

import base64
import binascii
import posixpath
from collections import ChainMap
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from trikubelet.core.containers.allowance import VALUES, VOLUME_BYTES_MAX, Allowance
from trikubelet.core.containers.downward import resource_value
from trikubelet.core.containers.errors import missing
from trikubelet.core.names import all_containers, with_ephemeral
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from trikubelet.core.containers.downward import PodFields
    from trikubelet.model.objects import PodCertificate

FILE_MODE: Final = 0o644
SECRET_MODE: Final = 0o600
"""Of a token or key that belongs to a certain user or group: nobody else is to read it."""
PLUGINS: Final = {
    "config_map": "kubernetes.io~configmap",
    "secret": "kubernetes.io~secret",
    "downward_api": "kubernetes.io~downward-api",
    "projected": "kubernetes.io~projected",
}
"""The directory of each kind, upstream's."""


@dataclass(frozen=True, slots=True)
class VolumeFile:
    """What a file holds and who may read it. ``owner`` None: whoever writes it."""

    content: bytes
    mode: int
    owner: int | None = None

    def __repr__(self) -> str:  # it may be a secret
        return f"<VolumeFile of {len(self.content)} bytes, mode {self.mode:04o}>"


Files = dict[str, VolumeFile]
"""By path below the volume's root."""


class Contents:
    """Owns the bytes that were made of objects' values for one volume, each once: a volume may have thousands of
    sources that name one object, and each of them only one small key of it."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, str], bytes] = {}
        self._kept: list[object] = []
        self._allowance = Allowance(VOLUME_BYTES_MAX, VALUES)

    def once(self, owner: object, key: str, make: Callable[[], bytes]) -> bytes:
        """What ``make`` makes, the first time this is asked for this very owner and key. Raises what it raises, and
        TooLarge for what is too large with all that was made before, whoever wanted it."""
        place = (id(owner), key)
        if place not in self._made:
            made = make()
            self._allowance.count(len(made), key)
            self._kept.append(owner)  # for an id is another one's once its owner is gone
            self._made[place] = made
        return self._made[place]

    def __repr__(self) -> str:
        return f"<Contents: {len(self._made)} values>"


@dataclass(frozen=True, slots=True)
class Sources:
    """What a volume is made of. ``in_memory``: it must never be on a disk."""

    plugin: str
    projections: tuple[k8s.VolumeProjection, ...]
    mode: int
    in_memory: bool = True

    @property
    def has_secrets(self) -> bool:
        """Whether something in it must be kept from a disk: a Secret, a token or a key. ConfigMaps, facts about the pod
        and trust anchors are no secrets; upstream keeps most of them in memory all the same."""
        return any(one.secret or one.service_account_token or one.pod_certificate for one in self.projections)


def sources_of(volume: k8s.Volume) -> Sources | None:
    """What the volume is made of; None for one that is not made of data."""
    if (projected := volume.projected) is not None:
        return Sources(PLUGINS["projected"], projected.sources, _mode(projected.default_mode))
    if (secret := volume.secret) is not None:
        one = k8s.VolumeProjection(
            secret=k8s.SecretProjection(items=secret.items, name=secret.secret_name, optional=secret.optional)
        )
        return Sources(PLUGINS["secret"], (one,), _mode(secret.default_mode))
    if (config := volume.config_map) is not None:
        one = k8s.VolumeProjection(
            config_map=k8s.ConfigMapProjection(items=config.items, name=config.name, optional=config.optional)
        )
        return Sources(PLUGINS["config_map"], (one,), _mode(config.default_mode), in_memory=False)
    if (downward := volume.downward_api) is not None:
        one = k8s.VolumeProjection(downward_api=k8s.DownwardAPIProjection(items=downward.items))
        return Sources(PLUGINS["downward_api"], (one,), _mode(downward.default_mode))
    return None


def _mode(mode: int | None) -> int:
    return FILE_MODE if mode is None else mode


def config_map_files(
    pod: k8s.Pod, source: k8s.ConfigMapProjection, held: k8s.ConfigMap | None, mode: int, contents: Contents
) -> Files:
    """The files of a ConfigMap; ``held`` None: there is none; ``contents``: those of the volume. Raises ValueError for
    what is missing and not optional, and for data that is not what the API stores."""
    if held is None:
        return _without(missing(pod, "configmap", source.name), optional=source.optional)

    complaint = "configmap references non-existent config key"
    picked = _picked(ChainMap(held.binary_data, held.data), source.items, mode, complaint, source.optional)
    return {path: VolumeFile(contents.once(held, key, partial(_value, held, key)), mode) for path, key, mode in picked}


def _value(held: k8s.ConfigMap, key: str) -> bytes:
    binary = held.binary_data.get(key)
    return held.data[key].encode() if binary is None else _decoded(binary)


def secret_files(
    pod: k8s.Pod, source: k8s.SecretProjection, held: k8s.Secret | None, mode: int, contents: Contents
) -> Files:
    """The files of a Secret; else as ``config_map_files``."""
    if held is None:
        return _without(missing(pod, "secret", source.name), optional=source.optional)
    picked = _picked(held.data, source.items, mode, "references non-existent secret key", source.optional)
    data = held.data
    return {
        path: VolumeFile(contents.once(held, key, partial(_decoded, data[key])), mode) for path, key, mode in picked
    }


def _without(complaint: str, *, optional: bool | None) -> Files:
    if optional:
        return {}
    raise ValueError(complaint)


def decoded(data: Mapping[str, str]) -> dict[str, bytes]:
    """What is in a Secret. Raises ValueError for what is no base64."""
    return {key: _decoded(text) for key, text in data.items()}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"its data is not base64: {error}") from None


def _picked(
    data: Collection[str], items: tuple[k8s.KeyToPath, ...], mode: int, complaint: str, optional: bool | None
) -> Iterator[tuple[str, str, int]]:
    """Of each file its path, its key and its mode: every key, or, where there are items, those keys at their paths."""
    if not items:
        yield from ((key, key, mode) for key in data)
    for item in items:
        if item.key in data:
            yield item.path, item.key, mode if item.mode is None else item.mode
        elif not optional:
            raise ValueError(f"{complaint}: {item.key}")


def downward_files(
    fields: PodFields, items: Iterable[k8s.DownwardAPIVolumeFile], mode: int, allowance: Allowance
) -> Files:
    """Facts about the pod as files. ``allowance``: what they may come to in the whole volume. Raises ValueError for a
    field or container that does not exist, and for what is too large."""
    files = {}
    for item in items:
        text = allowance.counted(_fact(fields, item), item.path)
        files[item.path] = VolumeFile(text.encode(), mode if item.mode is None else item.mode)
    return files


def _fact(fields: PodFields, item: k8s.DownwardAPIVolumeFile) -> str:
    if item.field_ref is not None:
        path = item.field_ref.field_path
        try:
            return fields.value(path)
        except KeyError:
            raise ValueError(f"unsupported fieldPath: {path}") from None
    if item.resource_field_ref is None:
        raise ValueError(f"{item.path}: neither fieldRef nor resourceFieldRef is given")
    name = item.resource_field_ref.container_name
    container = next((one for one in all_containers(fields.pod) if one.name == name), None)
    if container is None:
        raise ValueError(f"container {name} not found")
    return str(resource_value(fields.pod, container, item.resource_field_ref, fields.facts))


def secret_file(pod: k8s.Pod, content: bytes, mode: int) -> VolumeFile:
    """What proves who a pod is, its service account's token or its key, as a file: where the pod has a group, or all
    its containers one user, only for them."""
    owner, group = _only_user(pod), fs_group(pod)
    return VolumeFile(content, mode if owner is None and group is None else SECRET_MODE, owner)


def certificate_files(pod: k8s.Pod, source: k8s.PodCertificateProjection, held: PodCertificate, mode: int) -> Files:
    """A pod's key and its certificates, apart or in one file, as the source asks for them."""
    wanted = (
        (source.credential_bundle_path, held.key_pem + held.chain_pem),
        (source.key_path, held.key_pem),
        (source.certificate_chain_path, held.chain_pem),
    )
    return {path: secret_file(pod, content, mode) for path, content in wanted if path}


def fs_group(pod: k8s.Pod) -> int | None:
    """The group the pod's volumes belong to."""
    context = pod.spec.security_context
    return None if context is None else context.fs_group


def _only_user(pod: k8s.Pod) -> int | None:
    """The user that every container of the pod runs as, if its spec says so."""
    context = pod.spec.security_context
    default = None if context is None else context.run_as_user
    contexts = [one.security_context for one in with_ephemeral(pod)]
    users = {default if own is None or own.run_as_user is None else own.run_as_user for own in contexts}
    return users.pop() if len(users) == 1 else None


def clean_path(path: str) -> str:
    """A file's path below a volume's root as it is on the disk: without empty parts and ``.``, as upstream has it
    (filepath.Clean). Raises ValueError for one that leads nowhere, or elsewhere."""
    clean = posixpath.normpath(path)
    if not path or path.startswith("/"):
        problem = "must be a relative path"
    elif ".." in path.split("/"):
        problem = "must not contain '..'"
    elif clean.startswith(".."):
        problem = "must not start with '..'"  # such names are the writer's own, "./..data" as well
    elif clean == ".":
        problem = "must name a file"
    else:
        return clean
    raise ValueError(f"invalid path: {problem}: {path}")
