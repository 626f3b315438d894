"""The agent's own errors, one class per decision its caller takes.

A runtime's errors are in ``model.runtime_errors``. These are what the packages of layer 5 tell each other across the
ports; each carries what a user will read in a pod's status, so no caller has to compose it again.
"""

from __future__ import annotations


class InvariantBroken(Exception):
    """Something that must never be is so. Nobody catches it: the process ends and starts again from the facts."""


class StartFailed(Exception):
    """The agent cannot start with what it was given. The message is the whole story; exit code 1."""


class PodSyncError(Exception):
    """An attempt at a pod could not be finished; it will be tried again. ``reason`` and ``message`` are a waiting
    container's reason and message where ``container`` is set, else the pod's own trouble."""

    def __init__(self, reason: str, message: str, container: str = "") -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message
        self.container = container


class ImageUnavailable(PodSyncError):
    """The image cannot be had now (ErrImagePull, ImagePullBackOff, ErrImageNeverPull, InvalidImageName, …)."""


class VolumeFailed(PodSyncError):
    """A volume cannot be set up or taken down now (event reason FailedMount)."""


class CgroupFailed(PodSyncError):
    """A pod's cgroup cannot be made or removed now (event reason FailedCreatePodContainer or FailedKillPod)."""


class StillMounted(Exception):
    """A pod's directory cannot be removed: something below it is a mount point (named in the message)."""


class NetworkNotReady(PodSyncError):
    """The runtime's network is not ready and the pod needs it (event reason NetworkNotReady)."""


class RetryAt(PodSyncError):
    """It is too early to try again: a back-off is running. ``at`` is when it ends, on Trio's clock, in seconds."""

    def __init__(self, reason: str, message: str, at: float, container: str = "") -> None:
        super().__init__(reason, message, container)
        self.at = at
