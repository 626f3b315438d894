"""The default places on disk: upstream's for root, the XDG ones for other users.

                    root                          an ordinary user
    root directory  /var/lib/kubelet              $XDG_STATE_HOME/trikubelet    (~/.local/state)
    pod logs        /var/log/pods                 logs/pods in it
    legacy links    /var/log/containers           logs/containers in it
    manifests       /etc/kubernetes/manifests     $XDG_CONFIG_HOME/trikubelet/manifests    (~/.config)
    sockets         the root directory            $XDG_RUNTIME_DIR/trikubelet, else run in the root directory

Root on a runtime inside the agent has /var/lib/trikubelet, with the logs in it: /var/lib/kubelet and /var/log/pods may
belong to a kubelet, whose pods such a runtime cannot see and would treat as orphans.

It is used by ``app.settings``, and by the verbs that look for a running agent.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trikubelet.model.errors import StartFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = "trikubelet"
ROOT_MANIFESTS = Path("/etc/kubernetes/manifests")
RUNTIME_RECORD = "runtime-endpoint"
"""In the root directory of an agent that has started once (``app.root_dir``)."""
START_RECORD = "last-start.json"
"""The same, with its command line (``app.last_start``)."""


class Places(msgspec.Struct, frozen=True):
    """The agent's places. ``run_dir``: for sockets; ``manifests``: the default place of static pods."""

    root_dir: Path
    pod_logs_dir: Path
    container_logs_dir: Path
    manifests: Path
    run_dir: Path


def places_for(uid: int, environment: Mapping[str, str], root_dir: str = "", *, inside: bool = False) -> Places:
    """Return the places of a user. ``root_dir``: the requested root directory, or empty; ``inside``: the pods are on a
    runtime inside the agent.

    The files of an ordinary user's agent move with its root directory, so that two agents with two of them are
    separate; root's logs stay where every tool looks for them. Raises StartFailed if a home directory is needed and
    unknown.
    """
    if uid == 0 and inside:
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


def make_run_dir(run_dir: Path, root_dir: Path) -> None:
    """Create the directory for sockets, which is in the root directory or where the environment sets it. Raises
    StartFailed if it cannot be created, or written to."""
    try:
        run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(run_dir, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(run_dir))
    except OSError as error:
        remedy = "the root directory must be writable, --root-dir names another"
        if not run_dir.is_relative_to(root_dir):
            remedy = (
                "XDG_RUNTIME_DIR sets it as the directory of the agent's socket; unset that, or set it to a "
                "directory of your own"
            )
        raise StartFailed(f"{error.filename or run_dir}: {error.strerror}; {remedy}") from error


def _base(environment: Mapping[str, str], variable: str, below_home: str) -> Path:
    """Return a base directory. The specification has relative ones ignored."""
    given = environment.get(variable, "")
    if given.startswith("/"):
        return Path(given)
    home = environment.get("HOME", "")
    if not home.startswith("/"):
        raise StartFailed(
            f"neither {variable} nor HOME is set, so there is no place for an ordinary user's files (set HOME)"
        )
    return Path(home) / below_home
