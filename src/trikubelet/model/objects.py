"""References to Kubernetes objects: enough of one to name it in a log line, an event or a table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """One object. ``field_path`` narrows it down, as events do: ``spec.containers{web}``."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    field_path: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name
