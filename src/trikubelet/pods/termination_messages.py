"""What containers that ended left to say: their termination messages, or the end of their logs where that counts.

    read: read from the disk, once per container, for one that has ended says nothing new ─► of: for every status

Who is about to sync a pod has what is new read before it makes a status (``pods.pod_syncer``), since the files are
containers' own and the logs' disk may be anybody's. One that hangs costs its pods a moment, and their messages until it
answers. Of a pod with containers that have ended only those that are still there are remembered.
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
"""For all that is new of a pod. Only a disk that hangs takes longer."""


class TerminationMessages:
    """Owns what was read of the termination messages of containers that are there: per pod, container id → message."""

    def __init__(self, files: ContainerFiles) -> None:
        self._files = files
        self._messages: dict[str, dict[str, str]] = {}

    async def read(self, pod: Pod, observed: PodObservation) -> None:
        """Read what the pod's containers that have ended left to say, unless it is known. What cannot be read now is
        tried again when the pod is observed again; waits for no disk that hangs."""
        known = self._messages.get(pod.metadata.uid, {})
        found = {one.id: known[one.id] for one in _ended(observed) if one.id in known}
        with trio.move_on_after(READ_SECONDS_MAX):
            for one in _ended(observed):
                if one.id not in found and (message := await self._read(pod, one)) is not None:
                    found[one.id] = message
        if found:
            self._messages[pod.metadata.uid] = found

    def of(self, uid: str, observed: PodObservation) -> Mapping[str, str]:
        """What is known of what each of the pod's containers that have ended left to say, by its id."""
        known = self._messages.get(uid, {})
        return {one.id: known[one.id] for one in _ended(observed) if one.id in known}

    def forget(self, uid: str) -> None:
        """The pod is over."""
        self._messages.pop(uid, None)

    async def _read(self, pod: Pod, status: ContainerStatus) -> str | None:
        """The message, empty where there is none; None while an earlier reading of it hangs."""
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
