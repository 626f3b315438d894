"""The decision about one container's need of devices: met already, open to a choice, or refused, with upstream's texts.

A need that is met costs nothing and changes nothing, so the decision can be asked for at each start of a container.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from trikubelet.core.devices.choice import Open, classes, opened

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from trikubelet.core.devices.needs import Need
    from trikubelet.model.devices import Held, Holder, Holdings, Resource


AWAITS_PLUGIN: Final = "WaitingForDevicePlugin"
"""The reason for which containers wait, and of the event about it."""


@dataclass(frozen=True, slots=True)
class Met:
    """The container has its devices, or it runs and keeps the ones it was made with."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The need cannot be met. ``message``: upstream's words, for the pod's status."""

    message: str


@dataclass(frozen=True, slots=True)
class Awaited:
    """The need cannot be met while the plugin of the ``resource`` is away. ``until_seconds``: when that is given up, on
    the caller's clock."""

    resource: str
    until_seconds: float

    @property
    def message(self) -> str:
        """The reason for the wait, for the pod's status."""
        return f"waits for the device plugin of {self.resource} to register"


Decision = Met | Open | Refused
Answer = Met | Refused | Awaited


def decide(
    need: Need,
    inventory: Mapping[str, Resource],
    holdings: Mapping[Holder, Held],
    *,
    reusable: AbstractSet[str] = frozenset(),
    wanted_nodes: AbstractSet[int] = frozenset(),
    keeps_running: bool = False,
) -> Decision:
    """Return the decision about the need. ``reusable``: ids that the pod's init containers leave (``needs.reusable``).
    ``keeps_running``: the container runs and its plugin may not have registered again yet, so nothing is checked."""
    name = need.holder.resource
    held = holdings[need.holder].devices if need.holder in holdings else {}
    if held and len(held) != need.count:
        return Refused(
            f'pod "{need.holder.pod_uid}" container "{need.holder.container}" changed request for resource "{name}" '
            f"from {len(held)} to {need.count}"
        )
    if keeps_running:
        return Met()
    if name not in inventory:
        return Refused(f"cannot allocate unregistered device {name}")
    devices = inventory[name].devices
    healthy = {one.id for one in devices.values() if one.is_healthy}
    if not healthy:
        return Refused(f"no healthy devices present; cannot allocate unhealthy devices {name}")
    if not held.keys() <= healthy:
        return Refused(f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {name}")
    if held:
        return Met()
    taken = sorted(reusable & healthy)[: need.count]
    free = healthy - in_use(holdings, name) - set(taken)
    missing = need.count - len(taken)
    if missing > len(free):
        return Refused(
            f"requested number of devices unavailable for {name}. Requested: {missing}, Available: {len(free)}"
        )
    return opened(need.count, taken, classes(free, devices, wanted_nodes))


def in_use(holdings: Mapping[Holder, Held], resource: str) -> frozenset[str]:
    """Return the ids of a resource's devices that containers hold."""
    return frozenset(name for holder, held in holdings.items() if holder.resource == resource for name in held.devices)


def released(holdings: Mapping[Holder, Held], uids: AbstractSet[str]) -> Holdings:
    """Return the holdings without those of the pods with these UIDs."""
    return {holder: held for holder, held in holdings.items() if holder.pod_uid not in uids}


def without_answers(holdings: Mapping[Holder, Held]) -> Holdings:
    """Return the holdings without the answers of plugins, which are asked again before the next use."""
    return {holder: replace(held, answer=b"") for holder, held in holdings.items()}
