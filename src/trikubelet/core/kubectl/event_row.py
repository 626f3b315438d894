"""An event in a table, by kubectl's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.kubectl.words import since

if TYPE_CHECKING:
    from trikubelet.model.k8s import Event

COLUMNS: Final = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")
WIDE_COLUMNS: Final = ("SUBOBJECT",)


def event_cells(event: Event, now_ns: int) -> tuple[str, ...]:
    """Return the cells below ``COLUMNS`` and ``WIDE_COLUMNS``, at ``now_ns`` (nanoseconds since the epoch)."""
    about = event.involved_object
    seen = since(event.last_timestamp, now_ns)
    return (seen, event.type, event.reason, f"{about.kind.lower()}/{about.name}", event.message, about.field_path)


def message_of(event: Event) -> str:
    """Return the message; for an event about a container it begins with its name, like in ``kubectl describe``."""
    part = event.involved_object.field_path
    return f"{part}: {event.message}" if part else event.message
