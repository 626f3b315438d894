"""Metrics of what is written to the API server: plain figures, for whoever shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trikubelet.kit.distribution import Distribution


@dataclass(frozen=True, slots=True)
class WriterFigures:
    """How far the status writer is: objects that wait and that are being written, writes done and failed, how often a
    bug of our own stood in the way, and how long it took from the first sign of a change until the server had it
    (seconds)."""

    waiting: int
    busy: int
    patches: int
    removals: int
    failures: int
    bugs: int
    durations: Distribution


@dataclass(frozen=True, slots=True)
class EventFigures:
    """Requests that wrote an event, how many series wait, and how many events never reached the server: for want
    of room or because the server failed too often, because the object had too many, because the server refused them,
    and for a bug of our own."""

    written: int
    waiting: int
    lost: int
    filtered: int
    refused: int
    bugs: int


@dataclass(frozen=True, slots=True)
class PublishFigures:
    """How far this node's pods and events are published to the API server."""

    statuses: WriterFigures
    events: EventFigures
