"""An event's description: the fields that its row in a table leaves out. Pure: an API object in, lines out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.cli.describe.layout import Layout
from trikubelet.cli.describe.pod import when
from trikubelet.core.kubectl.words import NONE

if TYPE_CHECKING:
    from trikubelet.model.k8s import Event


def describe_event(event: Event) -> list[str]:
    """Return the lines."""
    out = Layout()
    about = event.involved_object
    out.field(0, "Name", event.metadata.name)
    out.field(0, "Namespace", event.metadata.namespace)
    out.field(0, "Type", event.type)
    out.field(0, "Reason", event.reason)
    out.field(0, "Message", event.message)
    out.field(0, "Object", f"{about.kind.lower()}/{about.name}")
    out.field(0, "Part Of It", about.field_path or NONE)
    out.field(0, "UID", about.uid or NONE)
    out.field(0, "Count", event.count or 1)
    out.field(0, "First Seen", when(event.first_timestamp) if event.first_timestamp else NONE)
    out.field(0, "Last Seen", when(event.last_timestamp) if event.last_timestamp else NONE)
    out.field(0, "From", ", ".join(filter(None, (event.source.component, event.source.host))) if event.source else NONE)
    return out.lines()
