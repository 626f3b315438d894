"""Decides which of the node's events are sent to the API server: repeated ones are counted, too many are dropped.

The three rules are upstream's (client-go's event correlator). A repeated event is the same object with a higher count.
After ten events about one object that differ only in their message, none more than ten minutes after the one before,
further ones are sent as one, "(combined from similar events)". And one object may have a burst of 25 events, then one
every five minutes; the rest is not sent, but counted in the next event that is sent.

``Correlator`` keeps the state for these rules and evicts the least recently used entries. ``new_event`` and
``recurrence`` are the bodies of the two requests. The task that sends them is ``status/event_writer.py``.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, Literal, TypeVar

from trikubelet.core.timestamps import SECOND_NS, rfc3339
from trikubelet.core.token_bucket import TokenBucket
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from trikubelet.model.objects import ObjectRef

SIMILAR_MAX: Final = 10
SIMILAR_SECONDS: Final = 600
PER_OBJECT_BURST: Final = 25
PER_OBJECT_SECONDS: Final = 300
REMEMBERED_MAX: Final = 4096
COMBINED: Final = "(combined from similar events): "
COMPONENT: Final = "kubelet"
NAME_CHARS_MAX: Final = 253
"""The limit for the name of an object in the API."""

Key = tuple["ObjectRef", str, str, str | None]
"""The key of a series: object, type, reason and message; the message is None for combined events."""


@dataclass(slots=True)
class Series:
    """One event as the API server has it. ``about``: the object; times in nanoseconds since the epoch; ``is_sent``: the
    server has it."""

    about: ObjectRef
    type: str
    reason: str
    message: str
    name: str
    first_ns: int
    last_ns: int
    count: int = 1
    is_sent: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Similar:
    """The messages of similar events, oldest first, and when the last of them came."""

    messages: dict[str, None] = field(default_factory=dict)
    last_ns: int = 0


K = TypeVar("K", bound="Hashable")
V = TypeVar("V")


class _Remembered(Generic[K, V]):
    """Owns the most recently used values by key, at most ``REMEMBERED_MAX``."""

    def __init__(self) -> None:
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        return self._values.get(key)

    def used(self, key: K, new: Callable[[], V]) -> V:
        """Return the value, created by ``new`` if there is none, and mark it as the most recently used."""
        value = self._values[key] if key in self._values else self._values.setdefault(key, new())
        self._values.move_to_end(key)
        if len(self._values) > REMEMBERED_MAX:
            self._values.popitem(last=False)
        return value


class Correlator:
    """Owns the recent events that the rules need."""

    def __init__(self) -> None:
        self._series: _Remembered[Key, Series] = _Remembered()
        self._similar: _Remembered[Key, _Similar] = _Remembered()
        self._allowances: _Remembered[ObjectRef, TokenBucket] = _Remembered()
        self._last_stamp = 0

    def observe(
        self,
        about: ObjectRef,
        type_: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        now_ns: int,
        annotations: Mapping[str, str] | None = None,
    ) -> Key | None:
        """Record an event. Returns the key of the series to send, or None if it must not be sent now. ``annotations``
        are those of the series' first event."""
        whole = _without_path(about)
        key: Key = (about, type_, reason, message)
        if self._is_one_of_many((whole, type_, reason, None), message, now_ns):
            key, message = (whole, type_, reason, None), COMBINED + message
        self._count(key, about, message, now_ns, annotations or {})
        now = now_ns / SECOND_NS
        allowance = self._allowances.used(whole, lambda: TokenBucket(PER_OBJECT_BURST, 1 / PER_OBJECT_SECONDS, now))
        return key if allowance.take(now) else None

    def series(self, key: Key) -> Series | None:
        """The series of that key as it is now; None if it was evicted."""
        return self._series.get(key)

    def note_sent(self, key: Key) -> None:
        """Record that the server has the series."""
        held = self._series.get(key)
        if held is not None:
            held.is_sent = True

    def _is_one_of_many(self, key: Key, message: str, now_ns: int) -> bool:
        similar = self._similar.used(key, _Similar)
        if now_ns - similar.last_ns > SIMILAR_SECONDS * SECOND_NS:
            similar.messages.clear()
        similar.last_ns = now_ns
        similar.messages[message] = None
        if len(similar.messages) < SIMILAR_MAX:
            return False
        del similar.messages[next(iter(similar.messages))]  # evict one, so that the limit holds
        return True

    def _count(self, key: Key, about: ObjectRef, message: str, now_ns: int, annotations: Mapping[str, str]) -> None:
        def new() -> Series:
            name = self._new_name(about, now_ns)
            return Series(about, type_, reason, message, name, now_ns, now_ns, 0, annotations=annotations)

        _, type_, reason, _ = key
        held = self._series.used(key, new)
        held.count += 1
        held.last_ns = now_ns
        held.message = message

    def _new_name(self, about: ObjectRef, now_ns: int) -> str:
        """Return the object's name with a stamp that is unique even when the clock stands still."""
        self._last_stamp = max(now_ns, self._last_stamp + 1)
        stamp = f".{self._last_stamp:x}"
        return about.name[: NAME_CHARS_MAX - len(stamp)].rstrip(".-") + stamp


def new_event(series: Series, host: str, node_uid: str = "") -> k8s.Event:
    """Return the object to create for a series. Events about objects without a namespace are created in ``default``.
    ``node_uid``: of this node's object; empty until it is registered, then events carry the node's name instead."""
    about = series.about
    namespace = namespace_of(series)
    return k8s.Event(
        api_version="v1",
        kind="Event",
        metadata=k8s.ObjectMeta(name=series.name, namespace=namespace, annotations=dict(series.annotations)),
        involved_object=k8s.ObjectReference(
            api_version="v1",
            kind=about.kind,
            namespace=about.namespace,
            name=about.name,
            uid=node_uid if node_uid and about.kind == "Node" else about.uid,
            field_path=about.field_path,
        ),
        type=series.type,
        reason=series.reason,
        message=series.message,
        count=series.count,
        first_timestamp=rfc3339(series.first_ns),
        last_timestamp=rfc3339(series.last_ns),
        source=k8s.EventSource(component=COMPONENT, host=host),
        reporting_component=COMPONENT,
        reporting_instance=host,
    )


def recurrence(series: Series) -> dict[str, object]:
    """Return the patch that records another occurrence."""
    return {"count": series.count, "lastTimestamp": rfc3339(series.last_ns), "message": series.message}


def namespace_of(series: Series) -> str:
    """Return the namespace of the series' object."""
    return series.about.namespace or "default"


def _without_path(about: ObjectRef) -> ObjectRef:
    return about if not about.field_path else type(about)(about.kind, about.name, about.namespace, about.uid)
