"""Errors of impossible configurations, one class per place where users read them, and the text for a missing object
that a pod refers to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.names import is_static
from trikubelet.model.errors import PodSyncError

if TYPE_CHECKING:
    from trikubelet.model.k8s import Pod


class ConfigError(PodSyncError):
    """A container cannot be configured as its spec asks (waiting reason CreateContainerConfigError)."""

    def __init__(self, message: str, container: str = "") -> None:
        super().__init__("CreateContainerConfigError", message, container)


class SandboxConfigError(PodSyncError):
    """A pod's sandbox cannot be configured as its spec asks (event reason FailedCreatePodSandBox)."""

    def __init__(self, message: str) -> None:
        super().__init__("FailedCreatePodSandBox", f"Failed to create pod sandbox: {message}")


def missing(pod: Pod, kind: str, name: str) -> str:
    """Return the API's text for a missing object; for the author of a manifest also where it was searched."""
    message = f'{kind} "{name}" not found'
    return f'{message} among the manifests, in namespace "{pod.metadata.namespace}"' if is_static(pod) else message
