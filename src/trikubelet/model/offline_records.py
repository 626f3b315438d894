"""The records of the offline store: what a node remembers of its pods for a reboot without an API server.

The store knows neither pods nor Secrets: each record is a name on one of its shelves, and bytes. (docs/decisions/0046)
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, ClassVar

from msgspec import field

from trikubelet.model.frozen import Discreet, Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping


class Shelf(Enum):
    """The kinds of records, in the order in which they get room."""

    HEAD = "head"
    PODS = "pods"
    OBJECTS = "objects"
    TOKENS = "tokens"


class RecordKey(Frozen):
    """The place of a record. ``name`` becomes the name of a file; that of a pod is its UID."""

    shelf: Shelf
    name: str

    def __str__(self) -> str:
        return f"{self.shelf.value}/{self.name}"


class Record(Discreet):
    """A record, whose content may be a Secret."""

    hidden: ClassVar[tuple[str, ...]] = ("content",)
    key: RecordKey
    content: bytes


HEAD: RecordKey = RecordKey(Shelf.HEAD, "head")
"""The only record of its shelf: which cluster, node and machine the store belongs to."""


def pod_key(uid: str) -> RecordKey:
    """Return the place of the pod's record."""
    return RecordKey(Shelf.PODS, uid)


class Stored(Frozen):
    """All that a store has at an agent's start. ``ended``: the UIDs of pods whose end is recorded; their records are
    not among ``pods``. ``kept``: the objects and tokens, which are read one by one when a pod needs them. ``contact``:
    the last stamp, "" if there is none. ``unreadable``: the damaged records, and why each cannot be read."""

    head: bytes | None = None
    contact: str = ""
    pods: Mapping[str, bytes] = field(default_factory=dict)
    ended: frozenset[str] = frozenset()
    kept: frozenset[RecordKey] = frozenset()
    unreadable: Mapping[str, str] = field(default_factory=dict)
