"""Failed image pulls: the reason and message for users, and the back-off.

The reasons are upstream's (pkg/kubelet/images), because scripts match them. A runtime that knows more than "it failed"
begins its message with one of two words, as the CRI defines.
"""

from __future__ import annotations

from typing import Final

from trikubelet.model.frozen import Frozen

BACKOFF_FIRST_SECONDS: Final = 10.0
BACKOFF_SECONDS_MAX: Final = 300.0
FORGIVEN_SECONDS: Final = 2 * BACKOFF_SECONDS_MAX
"""After this long without a failure, the next counts as the first."""

_KNOWN: Final = {
    "RegistryUnavailable": "the registry is unavailable",
    "SignatureValidationFailed": "the signature validation failed",
}


class Failure(Frozen):
    """The last failed pull of an image for a pod: its message, the pause it began, and when that ends (seconds of the
    caller's clock)."""

    message: str
    seconds: float
    at: float


def reason_and_message(image: str, said: str) -> tuple[str, str]:
    """Return a waiting container's reason and message, from the runtime's error."""
    for word, meaning in _KNOWN.items():
        if said.startswith(word):
            return word, f"image pull failed for {image} because {meaning}{said.removeprefix(word)}"
    return "ErrImagePull", said


def failed(before: Failure | None, message: str, now: float) -> Failure:
    """Return the record after one more failure: each pause is twice the last, up to five minutes."""
    seconds = BACKOFF_FIRST_SECONDS
    # ``at`` is the time of the last failure plus its pause.
    if before is not None and now - (before.at - before.seconds) <= FORGIVEN_SECONDS:
        seconds = min(before.seconds * 2, BACKOFF_SECONDS_MAX)
    return Failure(message, seconds, now + seconds)
