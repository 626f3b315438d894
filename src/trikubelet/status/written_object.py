"""What the status writer (``status/writer.py``) remembers of one object of the API server beside the informer's
picture: what it wrote last, and how that was answered. Which of both is newer is decided here, and nothing is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trikubelet.core.resource_version import is_older

if TYPE_CHECKING:
    from trikubelet.core.pod_status import PodProgress
    from trikubelet.model import k8s


@dataclass(slots=True)
class WrittenObject:
    """What is known of one object beyond what the informer says of it. Our last write, a patch of ``written_digest``,
    made it version ``written_version`` with the status ``written``, which is forgotten once the informer has seen it.
    ``written_over``: the version that the informer saw when that write was answered with one that will not come by: an
    older one, or one that the informer is past. ``written_from``: what it was made of: the version of our status, how
    far the pod was, and the version of the object that the informer saw. ``in_doubt``: nobody knows whether the last
    write arrived. ``missing_at``: the newest version known, by the informer or by our writes, when the server said
    there was none such any more. ``refused``: the version of our status that the server called invalid last;
    ``rewritten``: the one that rests as it was written again. ``is_to_go``: only its last status keeps it, which the
    server called invalid ``refusals`` times in a row. ``remove_after``: when its removal may be asked for again (Trio's
    clock, seconds)."""

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
        """Whether our last write is newer than what the informer sees, which knows everything up to a version. Once the
        informer has seen it its word counts: others may have written what is ours, as the node controller does when it
        thinks that the node is lost. So it does once it should have seen it: a server lost that write that was set back
        by so little that nothing else shows it."""
        version = seen.metadata.resource_version
        if version == self.written_over:
            return True
        is_to_come = not informed_to or is_older(informed_to, self.written_version)
        return is_to_come and is_older(version, self.written_version)

    def is_written_again(self, digest: int, written_from: tuple[int, PodProgress, str]) -> bool:
        """Take note of a patch that was just written. Whether it is the one before, or made of the same: others undo
        it, or the informer never shows what was written, and then the answer must not make it due at once."""
        is_again = digest == self.written_digest or written_from == self.written_from
        self.written_digest, self.written_from = digest, written_from
        return is_again

    def forget_answers(self) -> None:
        """The server was set back: what it answered before is no more."""
        self.written, self.written_version, self.written_over, self.missing_at = None, "", "", None

    def is_missing(self, seen: k8s.Pod) -> bool:
        """Whether the server has said so of what the informer sees. It may still see older ones come by."""
        at, now = self.missing_at, seen.metadata.resource_version
        return at is not None and (now == at or is_older(now, at))

    def miss(self, seen: k8s.Pod) -> None:
        """The server has none such."""
        version = seen.metadata.resource_version
        self.missing_at = self.written_version if is_older(version, self.written_version) else version
