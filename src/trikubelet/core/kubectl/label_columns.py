"""Labels in a table: a column for each named label (``-L``), and one for all labels (``--show-labels``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from trikubelet.core.kubectl.words import NONE

if TYPE_CHECKING:
    from collections.abc import Mapping

ALL_HEADING: Final = "LABELS"


class LabelColumns(msgspec.Struct, frozen=True):
    """The labels that a table shows after its other columns. ``names``: those with a column of their own; ``with_all``:
    one column shows all labels."""

    names: tuple[str, ...] = ()
    with_all: bool = False

    @property
    def headings(self) -> tuple[str, ...]:
        """Return the headings: a label's name without the prefix, in upper case."""
        own = (name.rpartition("/")[2].upper() for name in self.names)
        return (*own, *((ALL_HEADING,) if self.with_all else ()))

    def cells(self, labels: Mapping[str, str] | None) -> tuple[str, ...]:
        """Return the cells of one object; "" for a missing label."""
        labels = labels or {}
        own = (labels.get(name, "") for name in self.names)
        return (*own, *((labels_text(labels),) if self.with_all else ()))


def labels_text(labels: Mapping[str, str]) -> str:
    """Return all labels in one cell, sorted by name."""
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items())) or NONE
