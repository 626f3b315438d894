"""From a pod's spec to what the container runtime is asked for: sandbox and container configurations.

``sandbox`` and ``container`` put the parts together; the other modules are one subject each. Everything is pure: facts
about the node come in as ``NodeFacts``, paths as strings that somebody else has prepared.
"""

from __future__ import annotations

from trikubelet.core.containers.container import ContainerParts, container_config
from trikubelet.core.containers.errors import ConfigError, SandboxConfigError
from trikubelet.core.containers.facts import NodeFacts
from trikubelet.core.containers.sandbox import sandbox_config

__all__ = [
    "ConfigError",
    "ContainerParts",
    "NodeFacts",
    "SandboxConfigError",
    "container_config",
    "sandbox_config",
]
