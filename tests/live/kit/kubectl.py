"""Upstream's kubectl, asked from tests as whoever a kubeconfig says, and the kubeconfigs themselves.

Called by ``control_plane.py`` and by tests that are about what an operator sees.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import yaml

from .certificates import Credentials, write_private

if TYPE_CHECKING:
    from pathlib import Path


class KubectlFailed(Exception):
    """kubectl, or the API server through it, said no; the message is its own."""


class Kubectl:
    """One kubectl with one kubeconfig. May be called by several threads at once."""

    def __init__(self, program: Path, kubeconfig: Path) -> None:
        self._command = [str(program), f"--kubeconfig={kubeconfig}", f"--cache-dir={kubeconfig.parent / 'kubectl'}"]

    def __call__(self, *words: str, manifests: str | dict[str, Any] = "", seconds: float = 60) -> str:
        """What it prints. ``manifests``, text or one object, is its standard input. Raises KubectlFailed, or
        subprocess.TimeoutExpired when it takes longer than ``seconds``."""
        told = manifests if isinstance(manifests, str) else json.dumps(manifests)
        done = subprocess.run(
            self.command(*words), input=told, capture_output=True, text=True, timeout=seconds, check=False
        )
        if done.returncode:
            raise KubectlFailed(f"kubectl {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def command(self, *words: str) -> list[str]:
        """The command line, for who runs it by himself."""
        return [*self._command, *words]

    def get(self, *words: str) -> dict[str, Any]:
        """``kubectl get`` these: an object, or a list with ``items``. Raises KubectlFailed."""
        return dict(json.loads(self("get", "--output=json", *words)))


def write_kubeconfig(path: Path, server: str, authority: Path, user: Credentials | str) -> Path:
    """A kubeconfig of one cluster and one user, who has a certificate or a token; returns ``path``."""
    if isinstance(user, str):
        known_by = {"token": user}
    else:
        known_by = {"client-certificate": str(user.certificate), "client-key": str(user.key)}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "tests", "cluster": {"server": server, "certificate-authority": str(authority)}}],
        "users": [{"name": path.stem, "user": known_by}],
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": path.stem}}],
        "current-context": "tests",
    }
    write_private(path, yaml.safe_dump(content).encode())
    return path
