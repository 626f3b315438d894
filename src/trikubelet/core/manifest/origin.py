"""The place of one pod or object in a manifest: the whole of a document, or an item of its list.

``load`` makes one for every place of a pod. It turns a field's path within the pod into the path and line in the file,
for faults and other messages about a field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.field_path import place_of
from trikubelet.model.faults import Fault
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from trikubelet.core.document import Document


class Origin(Frozen):
    """One place: its document, the value there, and the path to it (``prefix``; empty for the whole document)."""

    document: Document
    value: object
    prefix: str = ""

    def path(self, path: str) -> str:
        """Return a path within the pod as one within the document."""
        return f"{self.prefix}.{path}" if self.prefix and path else self.prefix or path

    def fault(self, path: str, problem: str, remedy: str = "") -> Fault:
        """Return a fault of a field of the pod."""
        whole = self.path(path)
        return Fault(self.document.source, self.document.line(whole), whole, problem, remedy)

    def says(self, path: str) -> bool:
        """True if the author wrote this field."""
        return place_of(self.path(path)) in self.document.lines

    @property
    def kind(self) -> str:
        """The stated kind; "" if none is stated."""
        kind = self.value.get("kind") if isinstance(self.value, dict) else None
        return kind if isinstance(kind, str) else ""

    @property
    def name(self) -> str:
        """The pod's name as its author wrote it; "" if there is none."""
        meta = self.value.get("metadata") if isinstance(self.value, dict) else None
        name = meta.get("name") if isinstance(meta, dict) else None
        return name if isinstance(name, str) else ""

    @property
    def is_doubted(self) -> bool:
        """True if this pod, or an enclosing value, has a duplicate key or an unreadable value."""
        return self.document.is_doubted(place_of(self.prefix))

    def could_be_read(self, path: str) -> bool:
        """True if neither this field nor an enclosing one has an unreadable value."""
        place = place_of(self.path(path))
        return not any(place[:length] in self.document.unread for length in range(len(place) + 1))
