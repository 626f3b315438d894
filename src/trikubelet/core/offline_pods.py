"""Decides what of a pod is remembered for a reboot without an API server, and what may be written to the disk at all.

    the server's JSON ─► spec and metadata as they are, without managedFields; of its status what a start depends on
                         └► a digest over what is worth a write: restarts, readiness and times of probes are not

All fields of the spec are kept, also those that this release does not know: a newer one may read the record. A mirror
pod is not remembered, because its manifest is on the node. (docs/decisions/0046)
"""

from __future__ import annotations

from enum import Enum
from hashlib import sha256
from typing import Any, Final

import msgspec

from trikubelet.core.names import CONFIG_MIRROR
from trikubelet.core.pod_status.conditions import OWNED
from trikubelet.core.pod_status.phase import TERMINAL
from trikubelet.model.frozen import Discreet, Frozen
from trikubelet.model.offline_records import Record, pod_key

CONTAINER_LISTS: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_SECRET_KINDS: Final = frozenset({"Secret", "Token", "PodCertificate"})


class Secrecy(Enum):
    """The operator's choice of ``--offline``: what happens to Secrets, tokens and keys of certificates."""

    WITHOUT_SECRETS = "without-secrets"
    OPEN = "open"
    SEALED = "sealed"


class Keeping(Enum):
    """The form in which an object may be written."""

    NOT = "not"
    PLAIN = "plain"
    SEALED = "sealed"


class RememberedRecord(Frozen):
    """A record to write, and the digest of all in it that is worth a write."""

    record: Record
    digest: bytes


class Recalled(Discreet):
    """A pod's record as it was read. ``raw``: the pod as an API server sent it, with less of its status."""

    hidden = ("raw",)
    raw: bytes
    was_admitted: bool
    seen_at: str


class _Document(msgspec.Struct, rename="camel"):
    seen_at: str
    admitted: bool
    pod: msgspec.Raw


def keeping(kind: str, secrecy: Secrecy) -> Keeping:
    """Return the form in which an object of the kind may be written in this mode."""
    if kind not in _SECRET_KINDS or secrecy is Secrecy.OPEN:
        return Keeping.PLAIN
    return Keeping.SEALED if secrecy is Secrecy.SEALED else Keeping.NOT


def remember(raw: bytes, *, was_admitted: bool, seen_at: str) -> RememberedRecord | None:
    """Return the record of a pod of the API server; None for a mirror pod. Raises ValueError for what is no pod."""
    pod = _object(msgspec.json.decode(raw), "the pod")
    metadata = _object(pod.get("metadata"), "metadata")
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict) and CONFIG_MIRROR in annotations:
        return None
    metadata = {name: value for name, value in metadata.items() if name not in ("managedFields", "resourceVersion")}
    policy = _object(pod.get("spec"), "spec").get("restartPolicy") or "Always"
    status = _kept_status(pod.get("status") or {}, str(policy))
    kept = {**pod, "metadata": metadata, "status": status}
    content = msgspec.json.encode({"seenAt": seen_at, "admitted": was_admitted, "pod": kept})
    meaning = msgspec.json.encode([was_admitted, metadata, pod["spec"], _without_counts(status)], order="sorted")
    return RememberedRecord(Record(pod_key(str(metadata.get("uid"))), content), sha256(meaning).digest())


def recall(uid: str, content: bytes) -> Recalled:
    """Return the pod of a record. Raises ValueError for a content that is not this pod's record."""
    document = msgspec.json.decode(content, type=_Document)
    raw = bytes(document.pod)
    metadata = _object(_object(msgspec.json.decode(raw), "the pod").get("metadata"), "metadata")
    if metadata.get("uid") != uid:
        raise ValueError(f"it is the pod {metadata.get('uid')}")
    return Recalled(raw, document.admitted, document.seen_at)


def _kept_status(status: Any, policy: str) -> dict[str, object]:
    """Return what a start depends on: an end, the conditions of other components (readiness gates), when the pod began,
    and of each container its image, its restarts, and an end after which it stays down."""
    status = _object(status, "status")
    kept: dict[str, object] = {name: status[name] for name in ("startTime", "reason", "message") if status.get(name)}
    phase = str(status.get("phase"))
    if phase in TERMINAL:
        kept["phase"] = phase
    else:
        kept.pop("reason", None)
        kept.pop("message", None)
        kept["phase"] = "Running" if status.get("startTime") else "Pending"
    conditions = [
        {name: value for name, value in one.items() if name not in ("lastProbeTime", "observedGeneration")}
        for one in _list(status.get("conditions"))
        if str(one.get("type")) not in OWNED
    ]
    if conditions:
        kept["conditions"] = conditions
    for name in CONTAINER_LISTS:
        if containers := [_kept_container(one, name, policy) for one in _list(status.get(name))]:
            kept[name] = containers
    return kept


def _kept_container(status: dict[str, Any], where: str, policy: str) -> dict[str, object]:
    names = ("name", "image", "imageID", "restartCount")
    kept: dict[str, object] = {"ready": False, **{name: status[name] for name in names if name in status}}
    state = status.get("state")
    end = state.get("terminated") if isinstance(state, dict) else None
    if isinstance(end, dict) and _stays_down(end, where, policy):
        kept["state"] = {"terminated": end}
    return kept


def _stays_down(end: dict[str, Any], where: str, policy: str) -> bool:
    """True if the container is not started again after this end. An init container that succeeded is: a new sandbox
    begins with it."""
    if where == "ephemeralContainerStatuses":
        return True
    succeeded = end.get("exitCode") == 0
    return policy == "Never" or (policy == "OnFailure" and succeeded)


def _without_counts(status: dict[str, object]) -> dict[str, object]:
    return {
        name: [{key: one[key] for key in one if key != "restartCount"} for one in value]
        if name in CONTAINER_LISTS and isinstance(value, list)
        else value
        for name, value in status.items()
    }


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is no object")  # noqa: TRY004 - damage of a record, which callers handle
    return value


def _list(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
