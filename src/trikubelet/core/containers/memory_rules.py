"""The node's rules for the memory of containers: a part of its facts, which ``memory.py`` applies."""

from __future__ import annotations

from trikubelet.model.frozen import Frozen


class MemoryRules(Frozen):
    """This node's rules for memory. ``swap_bytes``: the swap that its pods may use together, 0 for none;
    ``swap_controlled``: the kernel can limit swap; ``kills_one``: only one process of a container is killed when it
    runs out of memory, not all; ``qos``: Memory QoS is on; ``throttle``: the share of the range from request to limit
    at which a container is throttled, 0 for never; ``reserves``: requested memory is protected from reclaim;
    ``unreserved_bytes``: the node's memory without the part that is reserved for the system and the agent."""

    swap_bytes: int = 0
    swap_controlled: bool = False
    kills_one: bool = False
    qos: bool = False
    throttle: float = 0.0
    reserves: bool = False
    unreserved_bytes: int = 0
