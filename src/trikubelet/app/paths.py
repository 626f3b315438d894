"""Where things are on disk unless somebody says otherwise: upstream's places for root, the XDG ones for anyone else.

                    root                          an ordinary user
    root directory  /var/lib/kubelet              $XDG_STATE_HOME/trikubelet    (~/.local/state)
    pod logs        /var/log/pods                 logs/pods in it
    legacy links    /var/log/containers           logs/containers in it
    manifests       /etc/kubernetes/manifests     $XDG_CONFIG_HOME/trikubelet/manifests    (~/.config)
    sockets         the root directory            $XDG_RUNTIME_DIR/trikubelet, else run in the root directory

Root on the embedded runtime has /var/lib/trikubelet, with the logs in it: /var/lib/kubelet and /var/log/pods may be a
kubelet's, whose pods the embedded runtime cannot see and would take for leftovers.

``app.settings`` asks here, and so do the verbs that look for a running agent.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trikubelet.model.errors import StartFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = "trikubelet"
ROOT_MANIFESTS = Path("/etc/kubernetes/manifests")


@dataclass(frozen=True, slots=True)
class Places:
    """The agent's places. ``run_dir`` is for sockets; ``manifests`` is where static pods are looked for when nothing
    says where."""

    root_dir: Path
    pod_logs_dir: Path
    container_logs_dir: Path
    manifests: Path
    run_dir: Path


def places_for(uid: int, environment: Mapping[str, str], root_dir: str = "", *, embedded: bool = False) -> Places:
    """The places of a user. ``root_dir``: the root directory that was asked for, or empty; ``embedded``: the pods live
    on the embedded runtime.

    What an ordinary user's agent keeps moves with its root directory, so that two agents with two of them are apart;
    root's logs stay where every tool looks for them. Raises StartFailed when a home directory is needed and unknown.
    """
    if uid == 0 and embedded:
        root = Path(root_dir or "/var/lib/trikubelet")
        return Places(root, root / "logs/pods", root / "logs/containers", ROOT_MANIFESTS, run_dir=root)
    if uid == 0:
        root = Path(root_dir or "/var/lib/kubelet")
        return Places(root, Path("/var/log/pods"), Path("/var/log/containers"), ROOT_MANIFESTS, run_dir=root)
    root = Path(root_dir) if root_dir else _base(environment, "XDG_STATE_HOME", ".local/state") / _NAME
    runtime = environment.get("XDG_RUNTIME_DIR", "")
    ours = Path(runtime) / _NAME if runtime.startswith("/") and not root_dir else root / "run"
    manifests = _base(environment, "XDG_CONFIG_HOME", ".config") / _NAME / "manifests"
    return Places(root, root / "logs/pods", root / "logs/containers", manifests, ours)


def _base(environment: Mapping[str, str], variable: str, below_home: str) -> Path:
    """A base directory. The specification has relative ones ignored."""
    given = environment.get(variable, "")
    if given.startswith("/"):
        return Path(given)
    home = environment.get("HOME", "")
    if not home.startswith("/"):
        raise StartFailed(f"neither {variable} nor HOME says where an ordinary user's files go; set HOME")
    return Path(home) / below_home
