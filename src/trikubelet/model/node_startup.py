"""The times at which a node came up, as plain data. (upstream-behaviour.md §1.22)"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class NodeStartup:
    """Owns the times at which this run of the agent registered a new node and made it ready, in nanoseconds since the
    epoch; 0 while that has not happened, and for a node that was registered before. ``booted_ns``: when the machine
    started, 0 for unknown; ``tried_ns``: the first request to register it."""

    booted_ns: int = 0
    tried_ns: int = 0
    registered_ns: int = 0
    ready_ns: int = 0
