"""What makes a configuration impossible."""

from __future__ import annotations

from trikubelet.model.errors import PodSyncError


class ConfigError(PodSyncError):
    """The container cannot be configured as its spec asks (waiting reason CreateContainerConfigError)."""

    def __init__(self, message: str, container: str = "") -> None:
        super().__init__("CreateContainerConfigError", message, container)
