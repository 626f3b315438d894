"""What the server of a manifest URL answered, as ``sources.url`` needs to know it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ManifestAnswer:
    """One answer. ``has_length``: the server said how much it sends, or that it is done, so that a body that was cut on
    its way is known for one; without, nobody can tell it from a whole one."""

    status: int
    body: bytes
    has_length: bool = True
