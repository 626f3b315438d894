"""The status writer's (``status/writer.py``) record of its last write of one object and the server's answer. It
decides, without I/O, whether that or the informer's object is newer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trikubelet.core.resource_version import is_older

if TYPE_CHECKING:
    from trikubelet.core.pod_status import PodProgress
    from trikubelet.model import k8s


@dataclass(slots=True)
class WrittenObject:
    """The record of one object. Our last write, a patch of ``written_digest``, made it version ``written_version`` with
    the status ``written``, which is dropped once the informer has seen it. ``written_over``: the informer's version
    when that write was answered with a version that it will not receive: an older one, or one that it has passed.
    ``written_from``: the input of the write: the version of our status, the pod's state, and the object's version at
    the informer. ``in_doubt``: the result of the last write is unknown. ``missing_at``: the newest version known, by
    the informer or by our writes, when the server answered that the object does not exist. ``refused``: the version of
    our status that the server last called invalid; ``rewritten``: the version that is delayed because it was written
    again. ``is_to_go``: the object is kept only for its last status, which the server called invalid ``refusals`` times
    in a row. ``remove_after``: when its deletion may be requested again (Trio's clock, seconds)."""

    uid: str
    is_to_go: bool = False
    written: k8s.PodStatus | None = None
    written_digest: int = 0
    written_version: str = ""
    written_over: str = ""
    written_from: tuple[int, PodProgress, str] | None = None
    in_doubt: bool = False
    missing_at: str | None = None
    refused: int = 0
    rewritten: int = 0
    refusals: int = 0
    remove_after: float = float("-inf")

    def is_written_after(self, seen: k8s.Pod, informed_to: str) -> bool:
        """True if our last write is newer than the informer's object; the informer knows everything up to a version.
        Once the informer has seen the write, its object counts: another client may have overwritten it, as the node
        controller does when it considers the node lost. The same holds once it should have seen it: a server that was
        restored by so little that nothing else shows it has lost the write."""
        version = seen.metadata.resource_version
        if version == self.written_over:
            return True
        is_to_come = not informed_to or is_older(informed_to, self.written_version)
        return is_to_come and is_older(version, self.written_version)

    def is_written_again(self, digest: int, written_from: tuple[int, PodProgress, str]) -> bool:
        """Record a patch that was just written. Return true if it equals the one before, or has the same input: then
        another client undoes it, or the informer never shows it, and the answer must not make it due at once."""
        is_again = digest == self.written_digest or written_from == self.written_from
        self.written_digest, self.written_from = digest, written_from
        return is_again

    def forget_answers(self) -> None:
        """Forget earlier answers, because the server was restored from a backup."""
        self.written, self.written_version, self.written_over, self.missing_at = None, "", "", None

    def is_missing(self, seen: k8s.Pod) -> bool:
        """True if the server answered that the informer's object does not exist. The informer may still see older
        ones."""
        at, now = self.missing_at, seen.metadata.resource_version
        return at is not None and (now == at or is_older(now, at))

    def miss(self, seen: k8s.Pod) -> None:
        """Record that the server does not have it."""
        version = seen.metadata.resource_version
        self.missing_at = self.written_version if is_older(version, self.written_version) else version
