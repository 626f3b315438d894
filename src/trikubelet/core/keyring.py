"""Finds the logins for an image: reads docker's configuration files and matches their places with a repository.

    Secrets · config.json · plugins ─► {place: login} ─► fitting(…, "registry/path") ─► logins to try, in order

A place is a registry (``registry.example``, ``*.registry.example:5000``), perhaps with the beginning of a path. The
longest place counts first, and all that fit are tried, so that a login can be changed without a gap. The rules are
upstream's (pkg/credentialprovider).
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import msgspec

from trikubelet.core.image_names import DEFAULT_REGISTRY
from trikubelet.model.decoding import decode_object
from trikubelet.model.registry import Login

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trikubelet.model.k8s import Secret

T = TypeVar("T")

_SCHEME: Final = re.compile(r"^https?://")
_VERSION: Final = re.compile(r"^/v[12](?=/)")
"""The API version in the URL of a login: the default registry's place is ``https://index.docker.io/v1/``."""
_PLACE: Final = re.compile(r"(?P<host>\[[^\]/]*\]|[^:/]*)(?::(?P<port>[^/]*))?(?P<path>/.*)?", re.DOTALL)
_DEFAULT_PLACE: Final = f"index.{DEFAULT_REGISTRY}"


class _Entry(msgspec.Struct):
    username: str = ""
    password: str = ""
    auth: str = ""


class _Config(msgspec.Struct):
    auths: dict[str, _Entry] = {}


class _Place(NamedTuple):
    host: str
    port: str
    path: str


def config_json_logins(text: bytes) -> dict[str, Login]:
    """Return the logins in a ``config.json``, by place. Raises ValueError, which quotes nothing of the text."""
    return _logins(_decoded(text, _Config).auths)


def dockercfg_logins(text: bytes) -> dict[str, Login]:
    """Return the logins in a ``.dockercfg``, the older form. Raises ValueError, which quotes nothing of the text."""
    return _logins(_decoded(text, dict[str, _Entry]))


_SECRETS: Final = {
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson", config_json_logins),
    "kubernetes.io/dockercfg": (".dockercfg", dockercfg_logins),
}


def secret_logins(secret: Secret) -> dict[str, Login]:
    """Return the logins in a Secret, by place. Raises ValueError for an unsuitable or unreadable one."""
    if secret.type not in _SECRETS:
        raise ValueError(f"it is of type {secret.type or 'Opaque'}, not {' or '.join(_SECRETS)}")
    key, read = _SECRETS[secret.type]
    try:
        return read(b64decode(secret.data[key], validate=True))
    except KeyError:
        raise ValueError(f"it has no {key}") from None
    except binascii.Error:
        raise ValueError(f"{key}: it is no base64") from None
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def fitting(logins: Iterable[tuple[str, T]], repository: str) -> list[T]:
    """Return the logins of the places that contain ``repository`` (``core.image_names``), in the order to try them."""
    ordered = sorted(((_known_as(place), held) for place, held in logins), key=lambda one: one[0], reverse=True)
    found = [held for place, held in ordered if covers(place, repository)]
    if not found and repository.startswith(f"{DEFAULT_REGISTRY}/"):
        found = [held for place, held in ordered if place == _DEFAULT_PLACE]
    return found


def covers(place: str, repository: str) -> bool:
    """True if a place contains a repository. Only the host may have wildcards, each for one label or a part of one."""
    pattern, target = _split(_SCHEME.sub("", place)), _split(repository)
    labels, wanted = pattern.host.split("."), target.host.split(".")
    return (
        pattern.port == target.port
        and len(labels) == len(wanted)
        and target.path.startswith(pattern.path)
        and (labels == wanted or all(fnmatchcase(label, glob) for label, glob in zip(wanted, labels, strict=True)))
    )


def _known_as(place: str) -> str:
    """Return a place from a configuration file without the parts that are not compared."""
    host, slash, path = _SCHEME.sub("", place).partition("/")
    return f"{host}{_VERSION.sub('', slash + path)}".removesuffix("/")


def _split(place: str) -> _Place:
    match = _PLACE.fullmatch(place)
    assert match is not None, "every text has a host, if an empty one"
    return _Place(match["host"], match["port"] or "", match["path"] or "")


def _decoded(text: bytes, type_: type[T]) -> T:
    try:
        return decode_object(text, type_)
    except msgspec.ValidationError as error:  # it names the path and the type
        raise ValueError(f"it is no docker configuration: {error}") from None
    except msgspec.DecodeError:
        raise ValueError("it is no JSON") from None


def _logins(entries: Mapping[str, _Entry]) -> dict[str, Login]:
    found = {place: _login(place, entry) for place, entry in entries.items()}
    # An entry without both is docker's placeholder for a login that is stored elsewhere.
    return {place: login for place, login in found.items() if login.username or login.password}


def _login(place: str, entry: _Entry) -> Login:
    if not entry.auth:
        return Login(entry.username, entry.password)
    try:
        padded = entry.auth + "=" * (-len(entry.auth) % 4)
        username, password = b64decode(padded, validate=True).decode().split(":", 1)
    except ValueError:
        raise ValueError(f"{place}: auth is not base64 of user:password") from None
    return Login(username, password)
