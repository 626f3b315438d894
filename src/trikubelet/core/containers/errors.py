"""What makes a configuration impossible, one class per place where a user will read it."""

from __future__ import annotations

from trikubelet.model.errors import PodSyncError


class ConfigError(PodSyncError):
    """A container cannot be configured as its spec asks (waiting reason CreateContainerConfigError)."""

    def __init__(self, message: str, container: str = "") -> None:
        super().__init__("CreateContainerConfigError", message, container)


class SandboxConfigError(PodSyncError):
    """A pod's sandbox cannot be configured as its spec asks (event reason FailedCreatePodSandBox)."""

    def __init__(self, message: str) -> None:
        super().__init__("FailedCreatePodSandBox", f"Failed to create pod sandbox: {message}")
