"""Metrics of writes to the API server, as plain figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trikubelet.kit.distribution import Distribution
    from trikubelet.model.node_startup import NodeStartup


@dataclass(frozen=True, slots=True)
class WriterFigures:
    """The progress of the status writer: objects that wait or are being written, writes done and failed, failures by a
    bug of our own, and the durations from a change until the server had it (seconds)."""

    waiting: int
    busy: int
    patches: int
    removals: int
    failures: int
    bugs: int
    durations: Distribution


@dataclass(frozen=True, slots=True)
class EventFigures:
    """Requests that wrote an event, waiting series, and dropped events: because the queue was full or the server failed
    too often, because the object had too many, because the server rejected them, and because of a bug of our own."""

    written: int
    waiting: int
    lost: int
    filtered: int
    refused: int
    bugs: int


@dataclass(frozen=True, slots=True)
class PublishFigures:
    """The progress of publishing this node, its pods and events to the API server."""

    statuses: WriterFigures
    events: EventFigures
    node: NodeStartup
