"""Kubeconfigs on the disk: read at the start, written once by a node that has just made itself a certificate."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from trikubelet.core.kubeconfig import read_kubeconfig, write_kubeconfig
from trikubelet.kit.named_file import read_named
from trikubelet.kit.private_file import write_privately
from trikubelet.model.errors import StartFailed
from trikubelet.model.kubeconfig import File, KeyPair

if TYPE_CHECKING:
    from pathlib import Path

    from trikubelet.model.kubeconfig import ClusterAccess, Server

log = logging.getLogger(__name__)


def load_kubeconfig(path: Path, named_by: str = "kubeconfig") -> ClusterAccess:
    """Return the meaning of the file's current context. ``named_by`` is the flag that names it. Raises StartFailed with
    a line for each fault."""
    path = path.absolute()
    try:
        text = read_named(path)
    except OSError as error:
        raise StartFailed(f"{named_by}: {path}: cannot be read: {error.strerror}") from error
    reading = read_kubeconfig(text, str(path))
    for warning in reading.warnings:
        log.warning("%s", warning)
    if reading.access is None:
        raise StartFailed("\n".join(map(str, reading.faults)))
    return reading.access


def save_kubeconfig(path: Path, server: Server, key_pair: Path) -> None:
    """Write the kubeconfig of a node whose certificate and key are in one file. The directory is made when it is not
    there. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pair = File(str(key_pair.absolute()))
    write_privately(path, write_kubeconfig(server, KeyPair(pair, pair)))
