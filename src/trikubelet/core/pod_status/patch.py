"""What is due to be written to the API server about one pod: a patch of its status, its removal, or nothing.

The status writer (``status/writer.py``) asks ``due`` with what the server has, what we computed and how far the pod
is, does it, and asks again. A patch names the object's UID, so it fails on another pod of the same name, and only
what differs; what went away is deleted by it. Each part it names is whole (a condition with all its members, a list of
container statuses), so that what it leads to does not depend on how old our picture of the server's object is. Where it
is not known whether the last patch arrived, everything of ours is named; but of an end that is held back not the phase,
which is the server's then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from trikubelet.core.names import is_mirror
from trikubelet.core.pod_status.conditions import OWNED, SHARED
from trikubelet.core.pod_status.merged import merge
from trikubelet.core.pod_status.normal import normalize
from trikubelet.core.pod_status.phase import TERMINAL
from trikubelet.core.pod_status.terminal import terminate
from trikubelet.model import k8s

_PLAIN: Final = (
    "phase", "reason", "message", "startTime", "hostIP", "podIP", "qosClass", "observedGeneration",
    "initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses",
)  # fmt: skip
"""Members a patch replaces; the API replaces lists of container statuses whole."""
_PHASE: Final = ("phase", "reason", "message")
_ADDRESSES: Final = ("hostIPs", "podIPs")
"""Lists the API would merge by address, and in which the order counts: the first is the pod's ``podIP``."""
_MAPS: Final[Mapping[str, Mapping[str, None]]] = {
    "resources": dict.fromkeys(("claims", "limits", "requests")),
    "allocatedResources": {},
}
"""Members the API would merge key by key, and keys that are sent even where they are not there. Others are taken away
by name only where they were seen: of the amounts of a pod the values change, hardly ever the names."""
_CONDITION: Final = ("status", "reason", "message", "lastProbeTime", "lastTransitionTime", "observedGeneration")


@dataclass(frozen=True, slots=True)
class Patch:
    """Write a status: the body of a strategic merge patch, and the status the object has once it is done, as far as
    what we know of it is not old."""

    body: Mapping[str, object]
    status: k8s.PodStatus


@dataclass(frozen=True, slots=True)
class Remove:
    """Take the object away, with no grace: everything it asked for is done."""


@dataclass(frozen=True, slots=True)
class PodProgress:
    """How far a pod is on this node. ``could_run``: a container of it may run; ``is_over``: nothing of it is left to
    do."""

    could_run: bool = True
    is_over: bool = False


def due(
    of: k8s.Pod,
    reported: k8s.PodStatus,
    computed: k8s.PodStatus | None,
    progress: PodProgress,
    now: str,
    *,
    in_doubt: bool = False,
    hopeless: bool = False,
) -> Patch | Remove | None:
    """What is to be done next about the object ``of``, which may be a static pod's mirror; None: nothing.

    ``reported`` is the status the server has, as far as we know; ``computed`` ours, None where none was ever computed.
    ``now`` is RFC 3339. ``in_doubt``: nobody knows whether the last patch arrived. ``hopeless``:
    the server calls the status invalid and was asked often enough; a pod that is over goes without being reported."""
    is_done = is_to_go(of, progress)
    if computed is None and is_done:
        computed = terminate(of, reported, now)  # asked to go before it was begun: it still ends by an end
    if computed is not None and not (is_done and hopeless):
        merged = normalize(of, merge(reported, computed, could_run=progress.could_run, now=now))
        members = changed_members(normalize(of, reported), merged, in_doubt=in_doubt)
        if computed.phase in TERMINAL and merged.phase not in TERMINAL:
            # An end that is held back: the phase is the server's, of which our picture may be an old one.
            members = {name: value for name, value in members.items() if name not in _PHASE}
        elif members.get("phase") in TERMINAL:
            # For the same reason an end is sent with all of its fields, whatever they seem to be already.
            members |= {"reason": merged.reason or None, "message": merged.message or None}
        if members:
            return Patch({"metadata": {"uid": of.metadata.uid}, "status": members}, merged)
    return Remove() if is_done and (hopeless or reported.phase in TERMINAL) else None


def is_to_go(of: k8s.Pod, progress: PodProgress) -> bool:
    """Whether nothing but its last status keeps the object: its pod was deleted and is over."""
    return bool(of.metadata.deletion_timestamp) and not is_mirror(of) and progress.is_over


def is_urgent(of: k8s.Pod, reported: k8s.PodStatus, computed: k8s.PodStatus | None, progress: PodProgress) -> bool:
    """Whether somebody waits for what is due: the end of a pod, or the first time that it is ready."""
    if of.metadata.deletion_timestamp and progress.is_over:
        return True
    if computed is None:
        return False
    if computed.phase in TERMINAL:
        return reported.phase not in TERMINAL and not progress.could_run
    return _is_ready(computed) and not _is_ready(reported)


def _is_ready(status: k8s.PodStatus) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in status.conditions)


def changed_members(before: k8s.PodStatus, after: k8s.PodStatus, *, in_doubt: bool = False) -> dict[str, object]:
    """The ``status`` of a strategic merge patch that leads from one status to the other as far as it is ours; empty
    when they are alike. ``in_doubt``: all that is ours, alike or not."""
    old, new = msgspec.to_builtins(before), msgspec.to_builtins(after)
    names = [n for n in (*_PLAIN, *_ADDRESSES, *_MAPS) if in_doubt or old.get(n) != new.get(n)]
    members = {name: _replacing(old.get(name), name, new.get(name)) for name in names}
    conditions = _conditions(before, after, in_doubt=in_doubt)
    return {**members, "conditions": conditions} if conditions else members


def _replacing(before: Any, name: str, value: Any) -> object:
    """The member's value in a patch after which nothing of the one before is left."""
    if name in _ADDRESSES and value:
        return [{"$patch": "replace"}, *value]
    if name in _MAPS:
        return _without({**_MAPS[name], **(before or {})}, value)
    return value


def _without(before: Any, value: Any) -> Any:
    """A map with null for each key that went away; "replace" would not do, for an API server ignores a map that says so
    where it has none yet (seen of v1.36.3)."""
    if not (isinstance(before, dict) and isinstance(value, dict)):
        return value
    return {key: _without(before.get(key), value.get(key)) for key in {**before, **value}}


def _conditions(before: k8s.PodStatus, after: k8s.PodStatus, *, in_doubt: bool) -> list[dict[str, object]]:
    old, new = ({c.type: c for c in status.conditions} for status in (before, after))
    said = [
        _whole(condition)
        for type_, condition in new.items()
        if (type_ in OWNED and in_doubt) or (type_ in OWNED | SHARED and old.get(type_) != condition)
    ]
    gone: list[dict[str, object]] = [
        {"$patch": "delete", "type": type_} for type_ in sorted(OWNED - new.keys()) if in_doubt or type_ in old
    ]
    return said + gone


def _whole(condition: k8s.PodCondition) -> dict[str, object]:
    """The condition with null for what it does not have, so that nothing of the one before stays."""
    given = msgspec.to_builtins(condition)
    return {"type": condition.type, **{name: given.get(name) for name in _CONDITION}}
