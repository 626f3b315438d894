"""Decides the next write to the API server about one pod: a patch of its status, its removal, or nothing.

The status writer (``status/writer.py``) passes the server's status, the computed one and the pod's progress to ``due``,
makes the write, and asks again. A patch names the object's UID, so it fails on another pod of the same name. It
contains only differences, and deletes members that are gone. Each part is complete (a condition with all its members, a
list of container statuses), so that the result does not depend on how old the agent's copy of the object is. If it is
unknown whether the last patch arrived, it contains everything of the agent's, except the phase of an end that is held
back, which is the server's then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from trikubelet.core.names import is_mirror
from trikubelet.core.pod_status.conditions import OWNED, SHARED
from trikubelet.core.pod_status.merged import merge
from trikubelet.core.pod_status.normal import normalize
from trikubelet.core.pod_status.phase import TERMINAL
from trikubelet.core.pod_status.terminal import terminate
from trikubelet.model import k8s
from trikubelet.model.frozen import Frozen

_PLAIN: Final = (
    "phase", "reason", "message", "startTime", "hostIP", "podIP", "qosClass", "observedGeneration",
    "initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses",
)  # fmt: skip
"""Members a patch replaces; the API replaces lists of container statuses whole."""
_PHASE: Final = ("phase", "reason", "message")
_ADDRESSES: Final = ("hostIPs", "podIPs")
"""Lists that the API would merge by address, but whose order counts: the first is the pod's ``podIP``."""
_MAPS: Final[Mapping[str, Mapping[str, None]]] = {
    "resources": dict.fromkeys(("claims", "limits", "requests")),
    "allocatedResources": {},
}
"""Members that the API would merge key by key, and keys that are sent even if absent. Other keys are removed by name
only if they were seen: the values of a pod's amounts change, but hardly ever the names."""
_CONDITION: Final = ("status", "reason", "message", "lastProbeTime", "lastTransitionTime", "observedGeneration")


class Patch(Frozen):
    """Write a status: the body of a strategic merge patch, and the resulting status, if the agent's copy is current."""

    body: Mapping[str, object]
    status: k8s.PodStatus


class Remove(Frozen):
    """Delete the object, without grace: everything it requested is done."""


class PodProgress(Frozen):
    """A pod's progress on this node. ``could_run``: a container of it may run; ``is_over``: nothing is left to do."""

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
    """Return the next write about the object ``of``, which may be a static pod's mirror; None if none is due.

    ``reported``: the server's status, as far as known; ``computed``: the agent's, None if none was computed. ``now`` is
    RFC 3339. ``in_doubt``: the last patch may or may not have arrived. ``hopeless``: the server repeatedly rejected the
    status as invalid; a pod that is over is removed without its status."""
    is_done = is_to_go(of, progress)
    if computed is None and is_done:
        computed = terminate(of, reported, now)  # deleted before it was begun: its status still ends properly
    if computed is not None and not (is_done and hopeless):
        merged = normalize(of, merge(reported, computed, could_run=progress.could_run, now=now))
        members = changed_members(normalize(of, reported), merged, in_doubt=in_doubt)
        if computed.phase in TERMINAL and merged.phase not in TERMINAL:
            # An end that is held back: the phase is the server's, and the agent's copy may be outdated.
            members = {name: value for name, value in members.items() if name not in _PHASE}
        elif members.get("phase") in TERMINAL:
            # For the same reason an end is sent with all of its fields, even if they seem unchanged.
            members |= {"reason": merged.reason or None, "message": merged.message or None}
        if members:
            return Patch({"metadata": {"uid": of.metadata.uid}, "status": members}, merged)
    return Remove() if is_done and (hopeless or reported.phase in TERMINAL) else None


def is_to_go(of: k8s.Pod, progress: PodProgress) -> bool:
    """True if only its last status keeps the object: its pod was deleted and is over."""
    return bool(of.metadata.deletion_timestamp) and not is_mirror(of) and progress.is_over


def is_urgent(of: k8s.Pod, reported: k8s.PodStatus, computed: k8s.PodStatus | None, progress: PodProgress) -> bool:
    """True if clients wait for the write: for the end of a pod, or its first readiness."""
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
    """Return the ``status`` of a strategic merge patch between two statuses, in the agent's fields; empty if they
    agree. ``in_doubt``: all of the agent's fields, equal or not."""
    old, new = msgspec.to_builtins(before), msgspec.to_builtins(after)
    names = [n for n in (*_PLAIN, *_ADDRESSES, *_MAPS) if in_doubt or old.get(n) != new.get(n)]
    members = {name: _replacing(old.get(name), name, new.get(name)) for name in names}
    conditions = _conditions(before, after, in_doubt=in_doubt)
    return {**members, "conditions": conditions} if conditions else members


def _replacing(before: Any, name: str, value: Any) -> object:
    """Return the member's value for a patch that leaves nothing of the one before."""
    if name in _ADDRESSES and value:
        return [{"$patch": "replace"}, *value]
    if name in _MAPS:
        return _without({**_MAPS[name], **(before or {})}, value)
    return value


def _without(before: Any, value: Any) -> Any:
    """Return a map with null for each removed key. The directive "replace" is unusable: an API server ignores a map
    with it if it has none yet (seen in v1.36.3)."""
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
    """Return the condition with null for its absent members, so that nothing of the one before stays."""
    given = msgspec.to_builtins(condition)
    return {"type": condition.type, **{name: given.get(name) for name in _CONDITION}}
