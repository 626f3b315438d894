"""Image references: is the name one, which tag does it mean, whose repository is it in, and must it be pulled?"""

from __future__ import annotations

import re
from typing import Final

DEFAULT_REGISTRY: Final = "docker.io"

PATH_CHARS_MAX: Final = 255
"""In a repository's path in its registry. (This, and that an image's id is no name: github.com/distribution/reference.)
"""
_IMAGE_ID = re.compile(r"[a-f0-9]{64}", re.ASCII)
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|\[[0-9a-fA-F:]+\])"
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_HOST}(?::\d+)?/)?{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?::(?P<tag>[\w][\w.-]{0,127}))?(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)


def with_default_tag(image: str) -> str:
    """The reference, with ``:latest`` where neither tag nor digest is given. Raises ValueError for no reference."""
    match = _matched(image)
    return image if match["tag"] or match["digest"] else f"{image}:latest"


def untagged(image: str) -> str:
    """The reference as it was written, without tag and digest. Raises ValueError for no reference."""
    return _matched(image)["name"]


def repository(image: str) -> str:
    """The registry and the path in it that a reference means: ``docker.io/library/busybox`` for ``busybox``. Raises
    ValueError for no reference."""
    return "/".join(_located(untagged(image)))


def normalized(image: str) -> str:
    """The reference in full, as runtimes list it: registry, path, and tag or digest. Raises ValueError for no
    reference."""
    whole = with_default_tag(image)
    return repository(whole) + whole[len(untagged(whole)) :]


def _located(name: str) -> tuple[str, str]:
    """The registry of a name, and the path in it."""
    host, slash, path = name.partition("/")
    if not slash or not (set(".:") & set(host) or host == "localhost" or host != host.lower()):
        host, path = DEFAULT_REGISTRY, name
    if host in (DEFAULT_REGISTRY, f"index.{DEFAULT_REGISTRY}"):
        return DEFAULT_REGISTRY, path if "/" in path else f"library/{path}"
    return host, path


def _matched(image: str) -> re.Match[str]:
    match = _REFERENCE.fullmatch(image)
    problem = ""
    if match is None:
        problem = "invalid reference format"
    elif _IMAGE_ID.fullmatch(image):
        problem = f"invalid repository name ({image}), cannot specify 64-byte hexadecimal strings"
    elif len(_located(match["name"])[1]) > PATH_CHARS_MAX:
        problem = f"repository name must not be more than {PATH_CHARS_MAX} characters"
    if match is None or problem:
        raise ValueError(f'couldn\'t parse image name "{image}": {problem}')
    return match


def default_pull_policy(image: str) -> str:
    """``Always`` for the latest tag, which may move; ``IfNotPresent`` for the rest."""
    try:
        tagged = with_default_tag(image)
    except ValueError:
        return "IfNotPresent"
    return "Always" if "@" not in tagged and tagged.endswith(":latest") else "IfNotPresent"


def should_pull(policy: str, *, present: bool) -> bool:
    """Whether to pull; ``Never`` with an absent image is the caller's to refuse."""
    return policy == "Always" or (policy != "Never" and not present)
