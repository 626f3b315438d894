"""Translates a pod's spec for the container runtime: sandbox and container configurations.

``sandbox`` and ``container`` assemble the parts; the other modules are one subject each. Everything is pure: facts
about the node come in as ``NodeFacts``, and paths as strings that the caller has prepared.
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
