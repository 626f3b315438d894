"""The files of a volume that is made of data: configMap, secret, downwardAPI, and projected, which mixes them.

All four are lists of sources with one mode for their files, so ``sources_of`` reads each as if it were projected.
``volumes.content`` fetches the objects that a source refers to; this module turns them into files, with upstream's
rules for missing objects and its error texts. ``volumes.atomic_writer`` writes them to disk.
"""

from __future__ import annotations

import base64
import binascii
import posixpath
from collections import ChainMap
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from trikubelet.core.containers.allowance import VALUES, VOLUME_BYTES_MAX, Allowance
from trikubelet.core.containers.downward import resource_value
from trikubelet.core.containers.errors import missing
from trikubelet.core.names import all_containers, with_ephemeral
from trikubelet.model import k8s
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from trikubelet.core.containers.downward import PodFields
    from trikubelet.model.objects import PodCertificate

FILE_MODE: Final = 0o644
SECRET_MODE: Final = 0o600
"""The mode of a token or key that belongs to a certain user or group: no other user may read it."""
PLUGINS: Final = {
    "config_map": "kubernetes.io~configmap",
    "secret": "kubernetes.io~secret",
    "downward_api": "kubernetes.io~downward-api",
    "projected": "kubernetes.io~projected",
}
"""Upstream's directory of each kind."""


class VolumeFile(Frozen):
    """A file's content and access. ``owner`` None: the user that writes it."""

    content: bytes
    mode: int
    owner: int | None = None

    def __repr__(self) -> str:  # it may be a secret
        return f"<VolumeFile of {len(self.content)} bytes, mode {self.mode:04o}>"


Files = dict[str, VolumeFile]
"""By path below the volume's root."""


class Contents:
    """Owns the bytes made from objects' values for one volume, each once: a volume may have thousands of sources that
    name one object, and each of them only one small key of it."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, str], bytes] = {}
        self._kept: list[object] = []
        self._allowance = Allowance(VOLUME_BYTES_MAX, VALUES)

    def once(self, owner: object, key: str, make: Callable[[], bytes]) -> bytes:
        """Return the result of ``make`` for this very owner and key; it is called only the first time. Raises the
        errors of ``make``, and TooLarge if the total of all results exceeds the limit."""
        place = (id(owner), key)
        if place not in self._made:
            made = make()
            self._allowance.count(len(made), key)
            self._kept.append(owner)  # because an id may be reused once its owner is gone
            self._made[place] = made
        return self._made[place]

    def __repr__(self) -> str:
        return f"<Contents: {len(self._made)} values>"


class Sources(Frozen):
    """The sources of a volume. ``in_memory``: it must never be on a disk; ``user``: the owner of files for which
    neither source nor item names another, None for the user that writes them."""

    plugin: str
    projections: tuple[k8s.VolumeProjection, ...]
    mode: int
    in_memory: bool = True
    user: int | None = None

    @property
    def has_secrets(self) -> bool:
        """True if some content must be kept off disks: a Secret, a token or a key. ConfigMaps, facts about the pod and
        trust anchors are no secrets, although upstream keeps most of them in memory."""
        return any(one.secret or one.service_account_token or one.pod_certificate for one in self.projections)


def sources_of(volume: k8s.Volume) -> Sources | None:
    """Return the volume's sources; None if it is not made of data."""
    if (projected := volume.projected) is not None:
        return Sources(
            PLUGINS["projected"], projected.sources, _mode(projected.default_mode), user=projected.default_user
        )
    if (secret := volume.secret) is not None:
        one = k8s.VolumeProjection(
            secret=k8s.SecretProjection(items=secret.items, name=secret.secret_name, optional=secret.optional)
        )
        return Sources(PLUGINS["secret"], (one,), _mode(secret.default_mode), user=secret.default_user)
    if (config := volume.config_map) is not None:
        one = k8s.VolumeProjection(
            config_map=k8s.ConfigMapProjection(items=config.items, name=config.name, optional=config.optional)
        )
        mode = _mode(config.default_mode)
        return Sources(PLUGINS["config_map"], (one,), mode, in_memory=False, user=config.default_user)
    if (downward := volume.downward_api) is not None:
        one = k8s.VolumeProjection(downward_api=k8s.DownwardAPIProjection(items=downward.items))
        return Sources(PLUGINS["downward_api"], (one,), _mode(downward.default_mode), user=downward.default_user)
    return None


def _mode(mode: int | None) -> int:
    return FILE_MODE if mode is None else mode


def config_map_files(
    pod: k8s.Pod, source: k8s.ConfigMapProjection, held: k8s.ConfigMap | None, mode: int, contents: Contents
) -> Files:
    """Return the files of a ConfigMap. ``held`` None: it does not exist; ``contents``: those of the volume. Raises
    ValueError for missing data that is not optional, and for data that the API does not store."""
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
    """Return the files of a Secret; otherwise like ``config_map_files``."""
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
    """Return a Secret's data, decoded. Raises ValueError for invalid base64."""
    return {key: _decoded(text) for key, text in data.items()}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"its data is not base64: {error}") from None


def _picked(
    data: Collection[str], items: tuple[k8s.KeyToPath, ...], mode: int, complaint: str, optional: bool | None
) -> Iterator[tuple[str, str, int]]:
    """Yield each file's path, key and mode: every key, or, if there are items, only their keys, at their paths."""
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
    """Return facts about the pod as files. ``allowance``: the limit for the whole volume. Raises ValueError for an
    unknown field or container, and above the limit."""
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
    """Return the pod's credential, a service account's token or a key, as a file. If the pod has a group, or one user
    for all its containers, only they may read it."""
    owner, group = _only_user(pod), fs_group(pod)
    return VolumeFile(content, mode if owner is None and group is None else SECRET_MODE, owner)


def certificate_files(pod: k8s.Pod, source: k8s.PodCertificateProjection, held: PodCertificate, mode: int) -> Files:
    """Return a pod's key and its certificates, in separate files or in one, as the source requests."""
    wanted = (
        (source.credential_bundle_path, held.key_pem + held.chain_pem),
        (source.key_path, held.key_pem),
        (source.certificate_chain_path, held.chain_pem),
    )
    return {path: secret_file(pod, content, mode) for path, content in wanted if path}


def owned(files: Files, source: k8s.VolumeProjection, default: int | None) -> Files:
    """Return a source's files with the owners that their items, the source or, at last, the volume name (``user``,
    ``defaultUser``). A file that is for a user because it is a credential keeps its mode for that user alone."""
    users = _users(source)
    if default is None and not any(user is not None for user in users.values()):
        return files
    is_whole = source.service_account_token or source.cluster_trust_bundle or source.pod_certificate
    found = {}
    for path, file in files.items():
        own = users.get("" if is_whole else path)
        user = default if own is None else own
        mode = SECRET_MODE if is_whole and user is not None else file.mode
        found[path] = file if user is None else replace(file, owner=user, mode=mode)
    return found


def _users(source: k8s.VolumeProjection) -> dict[str, int | None]:
    """Return the users that a source names, by the path of each item; by "" for one without items."""
    for one in (source.config_map, source.secret, source.downward_api):
        if one is not None:
            return {item.path: item.user for item in one.items}
    whole = source.service_account_token or source.cluster_trust_bundle or source.pod_certificate
    return {} if whole is None else {"": whole.user}


def fs_group(pod: k8s.Pod) -> int | None:
    """Return the group that owns the pod's volumes; None if there is none."""
    context = pod.spec.security_context
    return None if context is None else context.fs_group


def _only_user(pod: k8s.Pod) -> int | None:
    """Return the user that every container of the pod runs as; None if the spec does not define one."""
    context = pod.spec.security_context
    default = None if context is None else context.run_as_user
    contexts = [one.security_context for one in with_ephemeral(pod)]
    users = {default if own is None or own.run_as_user is None else own.run_as_user for own in contexts}
    return users.pop() if len(users) == 1 else None


def clean_path(path: str) -> str:
    """Return a file's path below a volume's root as it is on disk: without empty parts and ``.``, like upstream
    (filepath.Clean). Raises ValueError for a path that is empty or leads out of the volume."""
    clean = posixpath.normpath(path)
    if not path or path.startswith("/"):
        problem = "must be a relative path"
    elif ".." in path.split("/"):
        problem = "must not contain '..'"
    elif clean.startswith(".."):
        problem = "must not start with '..'"  # such names belong to the writer, "./..data" as well
    elif clean == ".":
        problem = "must name a file"
    else:
        return clean
    raise ValueError(f"invalid path: {problem}: {path}")
