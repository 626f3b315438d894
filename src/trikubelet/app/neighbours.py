"""Find the other node agents on this machine that use a container runtime: agents of ours and kubelets.

An upstream kubelet takes for an orphan what none of its own sources wants. So the agent looks here before it starts,
and ``reset`` and ``run`` before they touch a runtime. A runtime is identified by its socket, which has two names where
/var/run is a link to /run, and is another one in another mount namespace.
"""

from __future__ import annotations

import errno
import os
import re
from typing import TYPE_CHECKING, Final

from trikubelet.app.endpoint import DEFAULT
from trikubelet.app.lock import LOCK_NAME
from trikubelet.app.root_dir import recorded_runtime
from trikubelet.cri.endpoint import socket_path
from trikubelet.host.processes import command_line, holders_of, parents_of, processes_named
from trikubelet.kit.plain_file import open_plain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_K3S: Final = "unix:///run/k3s/containerd/containerd.sock"
_KUBELETS: Final = {
    "kubelet": DEFAULT,
    "k3s": _K3S,
    "k3s-server": _K3S,
    "k3s-agent": _K3S,
    "kubelite": "unix:///var/snap/microk8s/common/run/containerd.sock",
}
"""What the processes are called that are kubelets, and the runtime of each unless it is given another."""
_ENDPOINT_LINE: Final = re.compile(r"""^containerRuntimeEndpoint:\s*["']?([^\s"']+)""", re.MULTILINE)
_CONFIGURATION_BYTES_MAX: Final = 256 * 1024
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
    """The processes of kubelets on that runtime, those inside k3s and MicroK8s included. This process and its parents
    are not among them: the agent may be called kubelet itself. Raises OSError."""
    ours = {os.getpid(), *parents_of(os.getpid()), *holders_of(LOCK_NAME)}
    return sorted(
        process
        for name, default in _KUBELETS.items()
        for process in processes_named(name)
        if process not in ours and _may_use(process, default, endpoint)
    )


def _may_use(process: int, default: str, endpoint: str) -> bool:
    """True if the kubelet is on that runtime, or if a directory of configuration files may say so."""
    words = command_line(process)
    named = _endpoint_of(process, words)
    if not named and _value(words, "--config-dir"):
        return _socket(endpoint, process) == _socket(endpoint)
    return _socket(named or default, process) == _socket(endpoint)


def _endpoint_of(process: int, words: Sequence[str]) -> str:
    """The runtime endpoint that a kubelet's command line or configuration file names; empty where neither does."""
    if given := _value(words, "--container-runtime-endpoint"):
        return given
    configuration = _value(words, "--config")
    if not configuration.startswith("/"):
        return ""
    try:
        with open_plain(f"/proc/{process}/root{configuration}") as file:
            written = file.read(_CONFIGURATION_BYTES_MAX).decode(errors="replace")
    except OSError:
        return ""
    found = _ENDPOINT_LINE.search(written)
    return found.group(1) if found else ""


def _value(words: Sequence[str], flag: str) -> str:
    """The last value of a flag, written as one word or two; empty where it is not given."""
    found = ""
    for place, word in enumerate(words):
        if word.startswith(f"{flag}="):
            found = word.removeprefix(f"{flag}=")
        elif word == flag:
            found = "".join(words[place + 1 : place + 2])
    return found


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
