"""The conclusions of probes about a static pod, kept for the agent's next life.

    an answer changed something ─► noted ─► the agent ends ─► the next one reads it: ready and started until asked again

Of other pods the API server remembers that, in their status. Without it a restart of the agent would ask a container
that runs well whether it has started yet, and kill it where that can be answered once only.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from trikubelet.core.names import is_static, object_ref
from trikubelet.core.probes import SavedProbeResults
from trikubelet.kit.failure_log import FailureLog
from trikubelet.model.pod_notes import Note

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.model.k8s import Pod
    from trikubelet.ports import PodNotes

log = logging.getLogger(__name__)


class ProbeNotes:
    """Owns the warnings about notes that could not be written, so that each is logged once an hour. The notes are in
    the pods' directories, and change with the containers' readiness."""

    def __init__(self, notes: PodNotes) -> None:
        self._notes = notes
        self._failure_log = FailureLog()

    def of(self, pod: Pod) -> Mapping[str, SavedProbeResults]:
        """Return the notes, by containers' names. Never raises: probes conclude anew if they cannot be read."""
        if not is_static(pod):
            return {}
        try:
            content = self._notes.noted(pod.metadata.uid, Note.PROBES)
            return msgspec.json.decode(content, type=dict[str, SavedProbeResults]) if content else {}
        except (OSError, msgspec.MsgspecError) as error:
            log.warning("Pod %s: what its probes had found cannot be read: %s", object_ref(pod), error)
            return {}

    def keep(self, pod: Pod, results: Mapping[str, SavedProbeResults]) -> None:
        """Note what is concluded now. A disk that takes nothing costs the next life a question."""
        if not is_static(pod):
            return
        try:
            self._notes.note(pod.metadata.uid, Note.PROBES, msgspec.json.encode(results))
        except OSError as error:
            if self._failure_log.may_log(pod.metadata.uid):
                log.warning("Pod %s: what its probes have found cannot be written down: %s", object_ref(pod), error)
        else:
            self._failure_log.works_again(pod.metadata.uid)
