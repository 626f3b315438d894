"""The agent's own errors, one class per decision its caller takes.

A runtime's errors are in ``model.runtime_errors``. These are what the packages of layer 5 raise to each other across
the ports; each carries what a user will read in a pod's status, so no caller has to compose it again.
"""

from __future__ import annotations


class StartFailed(Exception):
    """The agent cannot start with what it was given. The message is the whole story; exit code 1."""


class PodSyncError(Exception):
    """A sync of a pod could not be finished; it will be tried again. ``reason`` and ``message`` are a waiting
    container's reason and message where ``container`` is set, else the pod's own problem."""

    def __init__(self, reason: str, message: str, container: str = "") -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message
        self.container = container


class ImageUnavailable(PodSyncError):
    """The image cannot be had now (ErrImagePull, ImagePullBackOff, ErrImageNeverPull, InvalidImageName, …)."""


class VolumeFailed(PodSyncError):
    """Volumes cannot be set up or taken down now (event reason FailedMount). ``messages`` has one for each of them, to
    be reported by itself."""

    def __init__(self, reason: str, *messages: str) -> None:
        super().__init__(reason, "; ".join(messages))
        self.messages = messages


class ObjectUnavailable(Exception):
    """An object that a pod refers to, or a token for it, cannot be had now; the message is for its user."""


class ImportFailed(Exception):
    """An image of the image directory cannot be imported now; the message names the archive and is for an operator."""


class LoginUnavailable(Exception):
    """A credential plugin made no login; the message is the end of a sentence that begins with its name."""


class CgroupFailed(PodSyncError):
    """A pod's cgroup cannot be made or removed now (event reason FailedCreatePodContainer or FailedKillPod)."""


class DevicesRefused(PodSyncError):
    """A pod that has not begun cannot have its devices (event reason UnexpectedAdmissionError)."""


class ResizeFailed(PodSyncError):
    """A pod that runs cannot be brought to its new amounts now (event reason ResizeError)."""


class StillMounted(Exception):
    """A pod's directory cannot be removed: something below it is a mount point (named in the message)."""


class NetworkNotReady(PodSyncError):
    """The runtime's network is not ready and the pod needs it (event reason NetworkNotReady)."""


class RetryAt(PodSyncError):
    """It is too early to try again: a back-off is running. ``at`` is when it ends, on Trio's clock, in seconds."""

    def __init__(self, reason: str, message: str, at: float, container: str = "") -> None:
        super().__init__(reason, message, container)
        self.at = at
