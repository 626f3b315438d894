"""Upstream's names for the kinds of volumes in its metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from trikubelet.model import k8s

PLUGIN_NAMES: Final = {
    "empty_dir": "kubernetes.io/empty-dir",
    "host_path": "kubernetes.io/host-path",
    "config_map": "kubernetes.io/configmap",
    "secret": "kubernetes.io/secret",
    "downward_api": "kubernetes.io/downward-api",
    "projected": "kubernetes.io/projected",
    "nfs": "kubernetes.io/nfs",
    "csi": "kubernetes.io/csi",
    "image": "kubernetes.io/image",
    "persistent_volume_claim": "kubernetes.io/persistent-claim",
    "ephemeral": "kubernetes.io/persistent-claim",
}
"""By the field of a volume that is set."""


def plugin_name(volume: k8s.Volume) -> str:
    """Return the name of this volume's kind; ``unknown`` for one that this agent does not set up."""
    return next((name for field, name in PLUGIN_NAMES.items() if getattr(volume, field) is not None), "unknown")
