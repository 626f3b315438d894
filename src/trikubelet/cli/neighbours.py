"""Who else on this machine looks after the pods of a container runtime: agents and kubelets.

Each of them takes for an orphan what no manifest of its own desires. So ``reset`` and ``run`` look here before they
touch a runtime. A runtime is known by its socket, which has two names where /var/run is a link to /run, and is another
one in another mount namespace.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

from trikubelet.app.lock import LOCK_NAME
from trikubelet.app.root_dir import recorded_runtime
from trikubelet.cri.endpoint import socket_path
from trikubelet.host.examination import holders_of, processes_named

if TYPE_CHECKING:
    from pathlib import Path

_NO_FILE: Final = frozenset({errno.EINVAL, errno.EISDIR, errno.ELOOP, errno.ENOTDIR})


def agents_on(endpoint: str) -> list[int]:
    """The other agents' processes. Each holds the lock of its root directory, in which its runtime stands; how it is
    called says nothing, being a script of Python's. Raises OSError."""
    return [
        process
        for process, lock in sorted(holders_of(LOCK_NAME).items())
        if _socket(_recorded(lock.parent), process) == _socket(endpoint)
    ]


def kubelets_on(endpoint: str) -> list[int]:
    """The kubelets' processes that could be on that runtime: which one each is on, its configuration would say."""
    return [process for process in processes_named("kubelet") if _socket(endpoint, process) == _socket(endpoint)]


def _recorded(root_dir: Path) -> str:
    """The endpoint that is recorded there. A container may hold a file of the lock's name, too, and have anything in
    the record's place: what is no file at all no agent wrote. Raises OSError."""
    try:
        return recorded_runtime(root_dir)
    except OSError as error:
        if error.errno in _NO_FILE:
            return ""
        raise


def _socket(endpoint: str, process: int | None = None) -> tuple[int, int] | str:
    """Which file a process has at that place, or, where that cannot be read, the place; by default this process."""
    try:
        path = os.path.realpath(socket_path(endpoint))
    except ValueError:  # within that agent, or nothing is recorded yet
        return endpoint
    try:
        found = os.stat(path if process is None else f"/proc/{process}/root{path}")
    except OSError:
        return path
    return found.st_dev, found.st_ino
