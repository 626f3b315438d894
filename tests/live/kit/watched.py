"""What an API server told of some of its objects, from the beginning to the end of a test: a watch that is kept.

Used by tests that must prove a negative ("the node was never not ready") or an order ("the object went after the
container"): looking now and then would miss what lasted for a moment. The watch is kubectl's and owes nothing to the
agent. It ends when the API server does; open another then.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .heard import Heard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Objects = dict[str, dict[str, Any]]
"""Objects by name."""


@dataclass(frozen=True)
class Change:
    """One event of a watch. ``kind`` is the API's word: ADDED, MODIFIED, DELETED. ``when`` it came, in seconds since
    the epoch."""

    kind: str
    object: dict[str, Any]
    when: float

    @property
    def name(self) -> str:
        """Of the object."""
        return str(self.object["metadata"]["name"])

    @property
    def uid(self) -> str:
        """Of the object."""
        return str(self.object["metadata"]["uid"])


class Watched(Heard):
    """Owns the changes that came since it was entered, the objects that were there first among them. Use as a context
    manager. ``command`` prints one event per line."""

    def __init__(self, command: Sequence[str]) -> None:
        super().__init__(command)
        self._changes: list[Change] = []
        self._now: Objects = {}

    @property
    def changes(self) -> tuple[Change, ...]:
        """Every change so far, in the order they came."""
        with self.news:
            return tuple(self._changes)

    @property
    def now(self) -> Objects:
        """The objects there are, by name."""
        with self.news:
            return dict(self._now)

    def wait(
        self,
        satisfied: Callable[[Objects], bool],
        what: str,
        seconds: float = 60,
        story: Callable[[], str] = lambda: "",
    ) -> Objects:
        """The objects once they satisfy, asked again after every change. Raises TimeoutError naming ``what`` did not
        come, with the objects as they are and ``story``."""
        with self.news:
            if why := self.why_not(lambda: satisfied(self._now), seconds):
                raise TimeoutError(f"{what}: {why}\n{json.dumps(self._now, indent=1)}\n{story()}")
            return dict(self._now)

    def take(self, line: str) -> None:
        """See ``Heard``."""
        told = json.loads(line)
        change = Change(told["type"], told["object"], time.time())
        self._changes.append(change)
        if change.kind == "DELETED":
            self._now.pop(change.name, None)
        else:
            self._now[change.name] = change.object


def condition(found: dict[str, Any], type_: str) -> str:
    """The status of an object's condition: True, False, Unknown, or nothing where it has none such."""
    conditions = found.get("status", {}).get("conditions", ())
    return next((str(one["status"]) for one in conditions if one["type"] == type_), "")


def is_ready(found: dict[str, Any]) -> bool:
    """Whether a node or a pod says that it is ready."""
    return condition(found, "Ready") == "True"
