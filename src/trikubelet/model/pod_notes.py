"""The agent's notes about a pod for its own next life, in addition to what the runtime and the API server remember.

Each is one small file of the pod's directory; the values are the files' names.
"""

from __future__ import annotations

import errno
from enum import Enum
from typing import Final

import msgspec

from trikubelet.model import k8s

NODE_NOTE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Size limit of a note of all pods together."""
NOTE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of one note. A pod is no larger than its manifest (4 MiB) or a request to the API (3 MiB), and its notes say
twice over at most what is in it."""


class Note(Enum):
    """The kind of note."""

    USER_IDS = "userns"
    """Which users of the node are the pod's (``core.user_namespaces``), in upstream's file."""
    RESOURCES = "resources"
    """The resources that the pod is allocated, and those that its containers were made with
    (``core.resize.allocation``)."""
    PROBES = "probes"
    """Which containers of a static pod are ready and have started (``probes.notes``)."""
    LIFE = "life"
    """When a static pod with a deadline began, how a static pod ended, and the numbers that its containers go on from
    (``pods.noted_lives``)."""
    EARLIER = "earlier"
    """Which containers and sandboxes are of an earlier life of the pod (``pods.observations``)."""
    ADOPTED = "adopted"
    """The UID that this agent computes for a static pod that another kubelet began, and that runs on under that
    kubelet's UID (``sources.adoption``)."""


class NotedLife(msgspec.Struct, frozen=True, omit_defaults=True):
    """The note of a static pod for the next one: ``start_time`` in RFC 3339 where it counts; and the phase,
    with its reason and message, where the pod has ended. Each is empty otherwise. ``attempts``: the last number of each
    container of the life before, by name, where this life goes on counting from there."""

    start_time: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""
    attempts: dict[str, int] = {}

    def as_status(self) -> k8s.PodStatus:
        """Return the note as a status that says nothing else."""
        return k8s.PodStatus(phase=self.phase, reason=self.reason, message=self.message, start_time=self.start_time)


class NodeNote(Enum):
    """The notes of all pods of the node together, in upstream's files of the root directory."""

    ALLOCATED = "allocated_pods_state"
    """The resources that pods are allocated (``core.resize.checkpoint``)."""
    ACTUATED = "actuated_pods_state"
    """The resources that their containers were made with."""


def check_size(note: Note, content: bytes) -> None:
    """Raise OSError (EFBIG) for a note that could not be read whole again."""
    if len(content) > NOTE_BYTES_MAX:
        message = (
            f"its note {note.value!r} would have {len(content)} bytes, more than the {NOTE_BYTES_MAX} that are read"
        )
        raise OSError(errno.EFBIG, message)
