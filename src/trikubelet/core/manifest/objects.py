"""ConfigMaps and Secrets in manifests: their defaults, their validation and their names.

They are written next to the static pods that read them (``configMap``, ``secret``, ``configMapKeyRef``, …), in the same
files or in others. They are returned as the API server would have stored them: in a namespace, with ``stringData``
merged into ``data``. The rules are the API's (upstream: ValidateConfigMap, ValidateSecret).
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from trikubelet.core.manifest.problem import invalid, required
from trikubelet.core.manifest.validation.metadata import object_metadata_problems
from trikubelet.model import k8s, names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trikubelet.core.manifest.problem import Problems

ManifestObject = k8s.ConfigMap | k8s.Secret
TYPES: Final[Mapping[str, type[ManifestObject]]] = {"ConfigMap": k8s.ConfigMap, "Secret": k8s.Secret}
BYTES_MAX: Final = 1024 * 1024
"""The API's limit for all values of one object."""

_NEEDED: Final = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
"""Keys without which a Secret of that type is useless."""
_JSON: Final = (".dockercfg", ".dockerconfigjson")
_EITHER: Final = {"kubernetes.io/basic-auth": ("username", "password")}
_OF_THE_API: Final = "kubernetes.io/service-account-token"


def object_name(held: ManifestObject) -> str:
    """Return an object's name on this node: ``ConfigMap default/settings``. No pod's full name has a space in it."""
    kind = "ConfigMap" if isinstance(held, k8s.ConfigMap) else "Secret"
    return f"{kind} {held.metadata.namespace or 'default'}/{held.metadata.name}"


def stored(held: ManifestObject) -> ManifestObject:
    """Return a valid object as the API server would have stored it."""
    kind = "ConfigMap" if isinstance(held, k8s.ConfigMap) else "Secret"
    meta = replace(held.metadata, namespace=held.metadata.namespace or "default")
    if isinstance(held, k8s.ConfigMap):
        return replace(held, api_version="v1", kind=kind, metadata=meta)
    plain = {key: base64.b64encode(value.encode()).decode() for key, value in held.string_data.items()}
    return replace(
        held,
        api_version="v1",
        kind=kind,
        metadata=meta,
        data={**held.data, **plain},
        string_data={},
        type=held.type or "Opaque",
    )


def object_problems(held: ManifestObject) -> Problems:
    """Yield all problems for which the API would reject the object."""
    yield from object_metadata_problems(held.metadata)
    if isinstance(held, k8s.ConfigMap):
        yield from _keys("data", held.data)
        yield from _keys("binaryData", held.binary_data)
        for key in held.data.keys() & held.binary_data.keys():
            yield invalid(f"binaryData[{key}]", key, "stands in data too")
        yield from _decodable("binaryData", held.binary_data)
        yield from _size("data", [*held.data.values(), *_bytes_of(held.binary_data)])
        return
    yield from _keys("data", held.data)
    yield from _keys("stringData", held.string_data)
    yield from _decodable("data", held.data)
    yield from _size("data", [*held.string_data.values(), *_bytes_of(held.data, but=held.string_data)])
    yield from _of_type(held)


def _keys(path: str, data: Mapping[str, str]) -> Problems:
    for key in data:
        if problem := names.config_key_problem(key):
            yield invalid(f"{path}[{key}]", key, problem)


def _decodable(path: str, data: Mapping[str, str]) -> Problems:
    for key, text in data.items():
        if _decoded(text) is None:
            plain = "stringData" if path == "data" else "data"
            yield invalid(f"{path}[{key}]", "<contents redacted>", f"must be base64; plain text goes into {plain}")


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _bytes_of(data: Mapping[str, str], but: Iterable[str] = ()) -> list[bytes]:
    return [_decoded(text) or b"" for key, text in data.items() if key not in but]


def _size(path: str, values: Iterable[str | bytes]) -> Problems:
    size = sum(len(value.encode() if isinstance(value, str) else value) for value in values)
    if size > BYTES_MAX:
        yield invalid(path, f"{size} bytes", f"must be no more than {BYTES_MAX} bytes together")


def _of_type(held: k8s.Secret) -> Problems:
    """Yield the problems of missing or invalid keys of typed Secrets."""
    given = {**dict.fromkeys(held.data), **dict.fromkeys(held.string_data)}
    for key in _NEEDED.get(held.type, ()):
        if key not in given:
            yield required(f"data[{key}]", f"a Secret of type {held.type} has it")
        elif key in _JSON and not _is_json(held, key):
            path = "stringData" if key in held.string_data else "data"
            yield invalid(f"{path}[{key}]", "<contents redacted>", "must be JSON")
    either = _EITHER.get(held.type, ())
    if either and not any(key in given for key in either):
        yield required(f"data[{either[0]}]", f"a Secret of type {held.type} has it, or {either[1]}")
    if held.type == _OF_THE_API:
        yield invalid("type", held.type, "only an API server makes tokens of service accounts")


def _is_json(held: k8s.Secret, key: str) -> bool:
    text = held.string_data[key].encode() if key in held.string_data else _decoded(held.data[key])
    try:
        msgspec.json.decode(text or b"{}")  # invalid base64 was reported already
    except (ValueError, RecursionError):  # invalid UTF-8 and endless nesting are not DecodeErrors
        return False
    return True
