"""Labels in a table: a column for each label that was named (``-L``), and one for all labels (``--show-labels``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from trikubelet.core.kubectl.words import NONE

if TYPE_CHECKING:
    from collections.abc import Mapping

ALL_HEADING: Final = "LABELS"


class LabelColumns(msgspec.Struct, frozen=True):
    """Which labels a table shows behind its other columns. ``names``: those with a column of their own; ``with_all``:
    whether there is a column for all labels."""

    names: tuple[str, ...] = ()
    with_all: bool = False

    @property
    def headings(self) -> tuple[str, ...]:
        """A label's heading is its name without the prefix, in upper case."""
        own = (name.rpartition("/")[2].upper() for name in self.names)
        return (*own, *((ALL_HEADING,) if self.with_all else ()))

    def cells(self, labels: Mapping[str, str] | None) -> tuple[str, ...]:
        """The cells of one thing; that of a label it does not have is empty."""
        labels = labels or {}
        own = (labels.get(name, "") for name in self.names)
        return (*own, *((labels_text(labels),) if self.with_all else ()))


def labels_text(labels: Mapping[str, str]) -> str:
    """All labels in one cell, sorted by name."""
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items())) or NONE
