"""Reports a pod's unsupported fields: in the log, and as an event of the pod.

``pods.admission`` calls this once for each configuration of a worker. ``core.containers`` finds the fields.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from trikubelet.core.containers.embedded import done_without
from trikubelet.core.containers.embedded_refusals import USE_CONTAINERD, refused
from trikubelet.core.containers.unsupported import unsupported_fields
from trikubelet.core.names import object_ref
from trikubelet.kit.fault_barriers import FaultBarriers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.core.containers.unsupported import Unsupported
    from trikubelet.model.k8s import Pod
    from trikubelet.ports import Events

log = logging.getLogger(__name__)


class UnsupportedReports:
    """Reports unsupported fields of pods. Owns no state."""

    def __init__(self, events: Events, *, embedded: bool, may_mount: bool = True) -> None:
        """``embedded``: also report fields that the embedded runtime rejects or ignores; ``may_mount``: the agent may
        mount."""
        self._events = events
        self._embedded = embedded
        self._may_mount = may_mount
        self._barriers = FaultBarriers(log, "%s: a bug in finding its unsupported fields; they are not reported")

    def report(self, pod: Pod, *, is_known: bool = False) -> None:
        """Report the pod's unsupported fields; only in the log if it ``is_known`` already. Never fails, because a
        failed report is no reason not to run the pod."""
        ref = object_ref(pod)
        with self._barriers.of(f"Pod {ref}", partial(self._events.record, ref, "Warning", "FailedSync")):
            self._say(
                unsupported_fields(pod), pod, "uses fields that the agent does not support yet", is_known=is_known
            )
            if self._embedded:
                what = f"uses fields that the embedded runtime rejects ({USE_CONTAINERD})"
                self._say(refused(pod), pod, what, is_known=is_known)
                found = done_without(pod, may_mount=self._may_mount)
                self._say(found, pod, "uses fields that the embedded runtime ignores", is_known=is_known)

    def _say(self, found: Sequence[Unsupported], pod: Pod, what: str, *, is_known: bool) -> None:
        if not found:
            return
        ref, unsupported = object_ref(pod), "; ".join(f"{field.path}: {field.why}" for field in found)
        log.warning("Pod %s %s: %s", ref, what, unsupported)
        if not is_known:
            self._events.record(ref, "Warning", "UnsupportedFields", f"The pod {what}: {unsupported}")
