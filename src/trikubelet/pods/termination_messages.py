"""The termination messages of ended containers: their files, or the end of their logs if that applies.

    read: from the disk, once per container, because an ended one does not change ─► of: for every status

A sync reads new messages before it makes a status (``pods.pod_syncer``), because the files belong to containers and the
logs' disk may be slow. A disk that hangs delays its pods for a moment, and their messages until it answers. Messages
are kept only for ended containers that still exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.names import with_ephemeral
from trikubelet.model.runtime import ContainerState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.model.k8s import Pod
    from trikubelet.model.runtime import ContainerStatus, PodObservation
    from trikubelet.ports import ContainerFiles

MESSAGE_BYTES_MAX: Final = 4096
LOG_TAIL_LINES_MAX: Final = 80
LOG_TAIL_BYTES_MAX: Final = 2048
READ_SECONDS_MAX: Final = 10.0
"""The limit for all new messages of a pod. Only a disk that hangs takes longer."""


class TerminationMessages:
    """Owns the termination messages of existing containers: per pod, container id → message."""

    def __init__(self, files: ContainerFiles) -> None:
        self._files = files
        self._messages: dict[str, dict[str, str]] = {}

    async def read(self, pod: Pod, observed: PodObservation) -> None:
        """Read the unknown messages of the pod's ended containers. Unreadable ones are retried at the next observation;
        never waits for a disk that hangs."""
        known = self._messages.get(pod.metadata.uid, {})
        found = {one.id: known[one.id] for one in _ended(observed) if one.id in known}
        with trio.move_on_after(READ_SECONDS_MAX):
            for one in _ended(observed):
                if one.id not in found and (message := await self._read(pod, one)) is not None:
                    found[one.id] = message
        if found:
            self._messages[pod.metadata.uid] = found

    def of(self, uid: str, observed: PodObservation) -> Mapping[str, str]:
        """Return the known messages of the pod's ended containers, by container id."""
        known = self._messages.get(uid, {})
        return {one.id: known[one.id] for one in _ended(observed) if one.id in known}

    def forget(self, uid: str) -> None:
        """Forget the pod."""
        self._messages.pop(uid, None)

    async def _read(self, pod: Pod, status: ContainerStatus) -> str | None:
        """Return the message, "" if there is none; None while an earlier read of it hangs."""
        container = next((c for c in with_ephemeral(pod) if c.name == status.name), None)
        if container is None or not status.termination_path:
            return ""
        uid, files = pod.metadata.uid, self._files
        falls_back = container.termination_message_policy == "FallbackToLogsOnError" and status.exit_code != 0
        file = status.termination_file or str(status.attempt)
        try:
            message = await files.read_termination_log(uid, status.name, file, MESSAGE_BYTES_MAX)
            if not message and falls_back and status.log_path:
                return await files.tail_log(status.log_path, LOG_TAIL_LINES_MAX, LOG_TAIL_BYTES_MAX)
        except OSError:
            return None
        return message


def _ended(observed: PodObservation) -> list[ContainerStatus]:
    return [one for one in observed.containers if one.state is ContainerState.EXITED]
