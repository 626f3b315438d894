"""The version that a node reports: a release of Kubernetes, and ours behind it."""

from __future__ import annotations

from typing import Final

from trikubelet import __version__

KUBERNETES_VERSION: Final = "v1.36.3"
"""The release whose API and behaviour this agent follows. Others read a node's version to know what it can do."""
VERSION: Final = f"{KUBERNETES_VERSION}+trikubelet.{__version__}"
