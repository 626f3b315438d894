"""Messages of events about a resize, in upstream's form: a verb, and as JSON the requested or allocated resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from trikubelet.core.resize.amounts import canonical
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Iterable

STARTED: Final = "ResizeStarted"
COMPLETED: Final = "ResizeCompleted"
DEFERRED: Final = "ResizeDeferred"
INFEASIBLE: Final = "ResizeInfeasible"
ERROR: Final = "ResizeError"


class _Part(msgspec.Struct):
    name: str
    resources: k8s.ResourceRequirements


class _Summary(msgspec.Struct, omit_defaults=True, rename="camel"):
    init_containers: tuple[_Part, ...] = ()
    containers: tuple[_Part, ...] = ()
    generation: int = -1  # no real one, so that it is always written
    error: str = ""


def event_message(what: str, pod: k8s.Pod, generation: int, error: str = "") -> str:
    """Return the event's message about the pod's resize of that generation; ``what``: the verb."""
    summary = _Summary(_parts(pod.spec.init_containers), _parts(pod.spec.containers), generation, error)
    return f"Pod resize {what}: {msgspec.json.encode(summary, order='deterministic').decode()}"


def _parts(containers: Iterable[k8s.Container]) -> tuple[_Part, ...]:
    return tuple(_Part(one.name, canonical(one.resources)) for one in containers)
