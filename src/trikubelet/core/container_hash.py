"""The hash that shows whether a running container still is what the spec asks for.

It is written into the container's annotations when the container is created and compared at every sync. Only the fields
that a pod's author may change on a live pod count (upstream: pickFieldsToHash), so that an upgrade of the agent, which
may add defaults to other fields, does not restart every container.

The value is upstream's (pkg/kubelet/container/helpers.go: HashContainer), so that a node can change between the two
agents without a restart.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from trikubelet.core.fnv import fnv1a_32
from trikubelet.core.go_json import go_text

if TYPE_CHECKING:
    from trikubelet.model.k8s import Container, EphemeralContainer

_CACHED_MAX: Final = 1024
"""Pairs of name and image: more than a node's containers. A hash costs 30 µs and is needed at every sync."""


def container_hash(container: Container | EphemeralContainer) -> str:
    """Return upstream's hash of the container's name and image: FNV-1a (32 bits), hexadecimal, no leading zeros."""
    return _upstream_hash(container.name, container.image)


def is_made_from(container: Container | EphemeralContainer, written: str) -> bool:
    """True if a container that was created with the hash ``written`` is what the spec asks for.

    The hash of earlier states of this agent counts, too, so that an upgrade restarts nothing. A container without a
    hash was created by something else and cannot be compared; it is left as it is.
    """
    return written in ("", container_hash(container), _earlier_hash(container.name, container.image))


@lru_cache(_CACHED_MAX)
def _upstream_hash(name: str, image: str) -> str:
    """Return the hash of Go's print of the bytes of a JSON object: ``([]uint8)[123 34 105 …]``."""
    numbers = " ".join(map(str, go_text({"image": image, "name": name}).encode()))
    return f"{fnv1a_32(f'([]uint8)[{numbers}]'.encode()):x}"


@lru_cache(_CACHED_MAX)
def _earlier_hash(name: str, image: str) -> str:
    """Return the hash of the JSON itself, which checkouts of this agent wrote before its first release."""
    text = json.dumps({"image": image, "name": name}, separators=(",", ":"), ensure_ascii=False)
    return f"{fnv1a_32(text.encode()):x}"
