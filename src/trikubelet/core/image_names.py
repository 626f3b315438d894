"""Image references: validates and normalizes them, and decides about pulling."""

from __future__ import annotations

import re
from typing import Final

DEFAULT_REGISTRY: Final = "docker.io"
SANDBOX_IMAGE: Final = "pause"
"""The name, without registry and path, of the image that runtimes make sandboxes of."""

PATH_CHARS_MAX: Final = 255
"""The limit for a repository's path in its registry. (This, and that an image's id is no name:
github.com/distribution/reference.)
"""
_IMAGE_ID = re.compile(r"[a-f0-9]{64}", re.ASCII)
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|\[[0-9a-fA-F:]+\])"
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_HOST}(?::\d+)?/)?{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?::(?P<tag>[\w][\w.-]{0,127}))?(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)

_DIGEST = re.compile(r"[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[a-zA-Z0-9=_-]+", re.ASCII)
_DIGEST_CHARS: Final = {"sha256": 64, "sha384": 96, "sha512": 128}
"""The number of hexadecimal digits of each algorithm."""


def with_default_tag(image: str) -> str:
    """Return the reference, with ``:latest`` if it has neither tag nor digest. Raises ValueError for no reference."""
    match = _matched(image)
    return image if match["tag"] or match["digest"] else f"{image}:latest"


def untagged(image: str) -> str:
    """Return the reference as written, without tag and digest. Raises ValueError for no reference."""
    return _matched(image)["name"]


def repository(image: str) -> str:
    """Return the registry and path of a reference: ``docker.io/library/busybox`` for ``busybox``. Raises ValueError for
    no reference."""
    return "/".join(_located(untagged(image)))


def normalized(image: str) -> str:
    """Return the reference in full, as runtimes list it: registry, path, and tag or digest. Raises ValueError for no
    reference."""
    whole = with_default_tag(image)
    return repository(whole) + whole[len(untagged(whole)) :]


def is_sandbox_image(image: str) -> bool:
    """True if it may be the image of sandboxes, by its name. Which one it is only the runtime knows."""
    try:
        return repository(image).rpartition("/")[2] == SANDBOX_IMAGE
    except ValueError:
        return False


def _located(name: str) -> tuple[str, str]:
    """Return the registry of a name, and the path in it."""
    host, slash, path = name.partition("/")
    if not slash or not (set(".:") & set(host) or host == "localhost" or host != host.lower()):
        host, path = DEFAULT_REGISTRY, name
    if host in (DEFAULT_REGISTRY, f"index.{DEFAULT_REGISTRY}"):
        return DEFAULT_REGISTRY, path if "/" in path else f"library/{path}"
    return host, path


def _matched(image: str) -> re.Match[str]:
    match = _REFERENCE.fullmatch(image)
    problem = _problem(image, match)
    if match is None or problem:
        raise ValueError(f'couldn\'t parse image name "{image}": {problem}')
    return match


def _problem(image: str, match: re.Match[str] | None) -> str:
    """Return why an image's name is not a reference, in upstream's words and order; "" if it is one."""
    remote = _located(image)[1].partition(":")[0]
    if _IMAGE_ID.fullmatch(image):
        return f"invalid repository name ({image}), cannot specify 64-byte hexadecimal strings"
    if remote != remote.lower():
        return f"invalid reference format: repository name ({remote}) must be lowercase"
    if match is None:
        return "invalid reference format"
    if len(_located(match["name"])[1]) > PATH_CHARS_MAX:
        return f"repository name must not be more than {PATH_CHARS_MAX} characters"
    return _digest_problem(match["digest"]) if match["digest"] else ""


def _digest_problem(digest: str) -> str:
    """Return why it is not the digest of an image; "" if it is (upstream: github.com/opencontainers/go-digest)."""
    if not _DIGEST.fullmatch(digest):
        return "invalid checksum digest format"
    algorithm, _, encoded = digest.partition(":")
    if algorithm not in _DIGEST_CHARS:
        return "unsupported digest algorithm"
    if len(encoded) != _DIGEST_CHARS[algorithm]:
        return "invalid checksum digest length"
    return "" if encoded == encoded.lower() else "invalid checksum digest format"


def default_pull_policy(image: str) -> str:
    """Return ``Always`` for the latest tag, which may move, and ``IfNotPresent`` otherwise."""
    try:
        tagged = with_default_tag(image)
    except ValueError:
        return "IfNotPresent"
    return "Always" if "@" not in tagged and tagged.endswith(":latest") else "IfNotPresent"


def should_pull(policy: str, *, present: bool) -> bool:
    """True if the image must be pulled. The caller rejects ``Never`` with an absent image."""
    return policy == "Always" or (policy != "Never" and not present)
