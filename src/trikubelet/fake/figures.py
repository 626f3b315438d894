"""The cost of the lists for the fake runtime itself, so that a measurement can separate it from the agent's cost.

CPU time of the whole process, user and system: other calls that are served at the same time are included.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


@dataclass(slots=True)
class ListCost:
    """The last list of one method: nanoseconds of CPU time to build and to send it, and its size. The totals are those
    of every list so far."""

    lists: int = 0
    bytes: int = 0
    build_cpu_ns: int = 0
    send_cpu_ns: int = 0
    total_build_cpu_ns: int = 0
    total_send_cpu_ns: int = 0

    @contextmanager
    def building(self) -> Generator[None]:
        """Count the block as building, and as the start of a list."""
        began = time.process_time_ns()
        yield
        self.lists += 1
        self.bytes, self.send_cpu_ns = 0, 0
        self.build_cpu_ns = time.process_time_ns() - began
        self.total_build_cpu_ns += self.build_cpu_ns

    @contextmanager
    def sending(self, size: int) -> Generator[None]:
        """Count the block as sending ``size`` bytes."""
        began = time.process_time_ns()
        try:
            yield
        finally:
            spent = time.process_time_ns() - began
            self.bytes += size
            self.send_cpu_ns += spent
            self.total_send_cpu_ns += spent


@dataclass(slots=True)
class Figures:
    """Owns the costs of the lists, by method."""

    lists: dict[str, ListCost] = field(default_factory=dict)

    def of(self, method: str) -> ListCost:
        """The cost of a method's lists, to be added to."""
        return self.lists.setdefault(method, ListCost())

    def shown(self) -> dict[str, object]:
        """All of it, and the process's CPU time since it started, for JSON."""
        return {"lists": self.lists, "process_cpu_ns": time.process_time_ns()}
