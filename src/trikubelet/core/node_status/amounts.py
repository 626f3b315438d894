"""The capacity of a node, and the part of it that is allocatable to pods.

Amounts are whole numbers: millicores under ``cpu``, bytes, or pieces (pods, huge pages as bytes). ``shown`` writes them
in the API's notation. Reservations for the system and the agent, and hard eviction thresholds, are not allocatable.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Final

from msgspec import field

from trikubelet.model import quantity
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.model.k8s import Quantity
    from trikubelet.model.node_reading import NodeReading

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
PROCESSES: Final = "pid"
"""The name in reservations; it is no resource of the node's status."""
HUGE_PAGES: Final = "hugepages-"

# The eviction signal that keeps some of a resource free.
_KEPT_FREE: Final = {MEMORY: "memory.available", EPHEMERAL_STORAGE: "nodefs.available"}


class Reserved(Frozen):
    """The part that is not for pods: amounts per resource (system and agent), and eviction's hard thresholds per
    signal."""

    amounts: tuple[Mapping[str, str], ...] = ()
    thresholds: Mapping[str, str] = field(default_factory=dict)


def capacity(reading: NodeReading, pods_max: int, pods_per_core: int = 0) -> dict[str, int]:
    """Return the machine's capacity. ``pods_per_core`` 0 sets no limit of its own."""
    pods = min(pods_max, pods_per_core * reading.cpus) if pods_per_core else pods_max
    amounts = {CPU: reading.cpus * 1000, MEMORY: reading.memory_bytes, PODS: pods}
    if reading.disk_bytes:
        amounts[EPHEMERAL_STORAGE] = reading.disk_bytes
    for size_bytes, pages in reading.huge_pages.items():
        amounts[huge_pages_name(size_bytes)] = size_bytes * pages
    return amounts


def allocatable(amounts: Mapping[str, int], reserved: Reserved) -> dict[str, int]:
    """Return the allocatable part of a capacity, never negative. Huge pages cannot be used as ordinary memory."""
    huge = sum(amount for name, amount in amounts.items() if name.startswith(HUGE_PAGES))
    return {
        name: max(0, amount - _set_aside(name, amount, reserved) - (huge if name == MEMORY else 0))
        for name, amount in amounts.items()
    }


def shared_limit(amounts: Mapping[str, int], processes_max: int, reserved: Reserved) -> dict[str, int]:
    """Return the limit of all pods together: the capacity, and the number of processes, without the reserved amounts.
    Like upstream, the memory of huge pages is included, because the kernel limits it separately."""
    everything = {**amounts, PROCESSES: processes_max} if processes_max else amounts
    return {name: max(0, amount - _set_aside(name, amount, reserved)) for name, amount in everything.items()}


def _set_aside(name: str, amount: int, reserved: Reserved) -> int:
    read = quantity.milli if name == CPU else quantity.whole
    asked = sum(read(one[name]) for one in reserved.amounts if name in one)
    return asked + _threshold(reserved.thresholds.get(_KEPT_FREE.get(name, ""), "0"), amount)


def _threshold(text: str, amount: int) -> int:
    """Return the amount of a quantity, or of a share of the capacity; 0 % and 100 % disable a threshold."""
    if not text.endswith("%"):
        return quantity.whole(text)
    share = Fraction(text.removesuffix("%")) / 100
    return ceil(amount * share) if 0 < share < 1 else 0


def huge_pages_name(size_bytes: int) -> str:
    """Return a resource's name, like ``hugepages-2Mi``."""
    return HUGE_PAGES + quantity.canonical(f"{size_bytes // 1024}Ki")


def shown(amounts: Mapping[str, int]) -> dict[str, Quantity]:
    """Return amounts in the API's notation of quantities."""
    return {name: _shown(name, amount) for name, amount in amounts.items()}


def _shown(name: str, amount: int) -> str:
    if name == CPU:
        return quantity.canonical(f"{amount}m")
    if name == EPHEMERAL_STORAGE:  # in decimal units since 1.37, memory in binary ones
        return quantity.canonical(str(amount))
    if name == PODS or not amount:
        return str(amount)
    if name.startswith(HUGE_PAGES):
        return quantity.canonical(f"{amount // 1024}Ki")
    return str(amount) if amount % 1024 else f"{amount // 1024}Ki"
