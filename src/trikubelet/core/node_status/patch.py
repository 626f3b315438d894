"""The difference of two node statuses as a strategic merge patch: only changes, and only of fields the agent owns.

Strategic merging has two traps. Addresses merge by type, and a node may have two of a type, so their list is sent with
a directive to replace it. Maps merge by key, so a removed resource must be named with null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trikubelet.core.node_status.conditions import OWNED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.model import k8s

_WHOLE = ("nodeInfo", "images", "volumesInUse", "daemonEndpoints", "runtimeHandlers", "features", "declaredFeatures")
"""Members sent whole: lists that the server replaces, and objects whose members are always complete."""


def differs(before: k8s.NodeStatus, after: k8s.NodeStatus) -> bool:
    """True if anything but the time of the heartbeat differs."""
    return _compared(before) != _compared(after)


def status_patch(before: k8s.NodeStatus, after: k8s.NodeStatus) -> Mapping[str, object]:
    """Return the patch that turns one into the other. It always has the agent's conditions, which are the heartbeat."""
    old, new = msgspec.to_builtins(before), msgspec.to_builtins(after)
    status: dict[str, object] = {
        "conditions": [condition for condition in new["conditions"] if condition["type"] in OWNED]
    }
    for member in ("capacity", "allocatable"):
        if changed := _map_difference(old.get(member, {}), new.get(member, {})):
            status[member] = changed
    if old.get("addresses") != new.get("addresses"):
        status["addresses"] = [*new.get("addresses", ()), {"$patch": "replace"}]
    for member in _WHOLE:
        if old.get(member) != new.get(member):
            status[member] = new.get(member)
    return {"status": status}


def _compared(status: k8s.NodeStatus) -> k8s.NodeStatus:
    ours = sorted(
        (condition for condition in status.conditions if condition.type in OWNED), key=lambda condition: condition.type
    )
    silent = tuple(msgspec.structs.replace(condition, last_heartbeat_time="") for condition in ours)
    return msgspec.structs.replace(status, conditions=silent)


def _map_difference(old: Mapping[str, object], new: Mapping[str, object]) -> dict[str, object]:
    gone = dict.fromkeys(old.keys() - new.keys())
    return gone | {name: value for name, value in new.items() if old.get(name) != value}
