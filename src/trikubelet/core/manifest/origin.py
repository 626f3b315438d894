"""Where one pod or object stands in a manifest: the whole of a document, or an item of its list.

``load`` makes one for every place where a pod should be. It turns a field's path within the pod into the path and line
that the author of the file knows, for faults and for what else there is to say about a field.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trikubelet.core.field_path import place_of
from trikubelet.model.faults import Fault

if TYPE_CHECKING:
    from trikubelet.core.document import Document


@dataclass(frozen=True, slots=True)
class Origin:
    """One place: its document, the value there, and the path to it (``prefix``; empty for the whole document)."""

    document: Document
    value: object
    prefix: str = ""

    def path(self, path: str) -> str:
        """A path within the pod as one within the document."""
        return f"{self.prefix}.{path}" if self.prefix and path else self.prefix or path

    def fault(self, path: str, problem: str, remedy: str = "") -> Fault:
        """Something to say about a field of the pod."""
        whole = self.path(path)
        return Fault(self.document.source, self.document.line(whole), whole, problem, remedy)

    def says(self, path: str) -> bool:
        """Whether the author wrote this field."""
        return place_of(self.path(path)) in self.document.lines

    @property
    def kind(self) -> str:
        """What it says it is; empty where it does not say."""
        kind = self.value.get("kind") if isinstance(self.value, dict) else None
        return kind if isinstance(kind, str) else ""

    @property
    def name(self) -> str:
        """The pod's name as its author wrote it; empty where there is none."""
        meta = self.value.get("metadata") if isinstance(self.value, dict) else None
        name = meta.get("name") if isinstance(meta, dict) else None
        return name if isinstance(name, str) else ""

    @property
    def is_doubted(self) -> bool:
        """Whether a key of this pod, or of what it stands in, was given twice, or has a value that cannot be."""
        return self.document.is_doubted(place_of(self.prefix))

    def could_be_read(self, path: str) -> bool:
        """Whether neither this field nor what it stands in has a value that cannot be."""
        place = place_of(self.path(path))
        return not any(place[:length] in self.document.unread for length in range(len(place) + 1))
