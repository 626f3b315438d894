"""The version that a node reports: a release of Kubernetes, and ours behind it."""

from __future__ import annotations

from typing import Final

from trikubelet import __version__
from trikubelet.model.upstream import KUBERNETES_VERSION

VERSION: Final = f"{KUBERNETES_VERSION}+trikubelet.{__version__}"
