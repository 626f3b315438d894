"""Image references: is the name one, which tag does it mean, and must it be pulled?"""

from __future__ import annotations

import re

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|\[[0-9a-fA-F:]+\])"
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_HOST}(?::\d+)?/)?{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?::(?P<tag>[\w][\w.-]{0,127}))?(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)


def with_default_tag(image: str) -> str:
    """The reference, with ``:latest`` where neither tag nor digest is given. Raises ValueError for no reference."""
    match = _REFERENCE.fullmatch(image)
    if match is None:
        raise ValueError(f'couldn\'t parse image name "{image}": invalid reference format')
    return image if match["tag"] or match["digest"] else f"{image}:latest"


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
