"""Finds the other node agents on this machine that use a container runtime: agents of ours and kubelets.

An upstream kubelet treats every pod that none of its own sources desires as an orphan. So the agent searches here
before it starts, and ``reset`` and ``run`` before they touch a runtime. A runtime is identified by its socket, which
has two names if /var/run is a link to /run, and is a different one in another mount namespace.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from trikubelet.app.endpoint import DEFAULT
from trikubelet.app.lock import LOCK_NAME, shares_runtime
from trikubelet.app.root_dir import recorded_runtime
from trikubelet.core.document import parse_documents
from trikubelet.cri.endpoint import socket_path
from trikubelet.host.processes import command_line, holders_of, parents_of, processes_named
from trikubelet.kit.plain_file import read_plain
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class _Kubelet(Frozen):
    """A program with a kubelet inside; k0s has none, it starts a kubelet with flags. ``runtime``: the endpoint it uses
    by default; ``configuration``: its default configuration file; ``field``: the name of the endpoint there."""

    runtime: str
    configuration: str = ""
    field: str = "containerRuntimeEndpoint"


_K3S: Final = _Kubelet(
    "unix:///run/k3s/containerd/containerd.sock", "/etc/rancher/k3s/config.yaml", "container-runtime-endpoint"
)
_K3S_DOCKER: Final = "unix:///run/k3s/cri-dockerd/cri-dockerd.sock"
_KUBELETS: Final = {
    "kubelet": _Kubelet(DEFAULT),
    "k3s": _K3S,
    "k3s-server": _K3S,
    "k3s-agent": _K3S,
    "kubelite": _Kubelet("unix:///var/snap/microk8s/common/run/containerd.sock"),
}
"""By the name of the process."""
_CONFIGURATION_BYTES_MAX: Final = 256 * 1024
_DROP_INS_MAX: Final = 100


def agents_on(endpoint: str, *, with_sharing: bool = True) -> list[int]:
    """Return the other agents' processes. Each holds the lock of its root directory, which records its runtime; the
    process may be called kubelet, too. ``with_sharing``: also those that share their runtime. An unreadable process is
    left out, because it may have ended. Raises OSError without /proc."""
    found = []
    for process, lock in sorted(holders_of(LOCK_NAME).items()):
        with suppress(OSError):
            if _socket(recorded_runtime(lock.parent), process) == _socket(endpoint) and (
                with_sharing or not shares_runtime(lock)
            ):
                found.append(process)
    return found


def kubelets_on(endpoint: str) -> list[int]:
    """Return the processes of kubelets on that runtime, those inside k3s and MicroK8s included. This process and its
    parents are not among them: the agent may be called kubelet itself. Raises OSError without /proc."""
    ours = {os.getpid(), *parents_of(os.getpid()), *holders_of(LOCK_NAME)}
    return sorted(
        process
        for name, kubelet in _KUBELETS.items()
        for process in processes_named(name)
        if process not in ours and _may_use(process, kubelet, endpoint)
    )


def _may_use(process: int, kubelet: _Kubelet, endpoint: str) -> bool:
    """True if the kubelet is on that runtime, or if a directory of configuration files may move it there."""
    words = command_line(process)
    named = _endpoint_of(process, words, kubelet)
    if not named and _value(words, "--config-dir"):
        return _socket(endpoint, process) == _socket(endpoint)
    return _socket(named or kubelet.runtime, process) == _socket(endpoint)


def _endpoint_of(process: int, words: Sequence[str], kubelet: _Kubelet) -> str:
    """Return the runtime endpoint in a kubelet's command line or configuration; empty if there is none."""
    if given := _value(words, "--container-runtime-endpoint"):
        return given
    named, docker = "", kubelet is _K3S and "--docker" in words
    for settings in _configuration(process, words, kubelet):
        found = settings.get(kubelet.field)
        if isinstance(found, str) and found:
            named = found
        if kubelet is _K3S and settings.get("docker") is True:
            docker = True
    return named or (_K3S_DOCKER if docker else "")


def _configuration(process: int, words: Sequence[str], kubelet: _Kubelet) -> Iterator[Mapping[str, object]]:
    """Yield the content of the configuration files that a kubelet reads, in YAML or JSON; k3s has a directory of them,
    too. Unreadable ones are left out."""
    path = _value(words, "--config") or kubelet.configuration
    if not path.startswith("/"):
        return
    root = f"/proc/{process}/root"
    names: list[str] = []
    if kubelet is _K3S:
        with suppress(OSError):
            names = sorted(name for name in os.listdir(f"{root}{path}.d") if name.endswith((".yaml", ".yml")))
    for file in (path, *(f"{path}.d/{name}" for name in names[:_DROP_INS_MAX])):
        with suppress(OSError):
            documents, _ = parse_documents(read_plain(root + file, _CONFIGURATION_BYTES_MAX), file)
            yield from (one.value for one in documents if isinstance(one.value, dict))


def _value(words: Sequence[str], flag: str) -> str:
    """Return the last value of a flag, written as one word or two; empty if it is not given."""
    found = ""
    for place, word in enumerate(words):
        if word.startswith(f"{flag}="):
            found = word.removeprefix(f"{flag}=")
        elif word == flag:
            found = "".join(words[place + 1 : place + 2])
    return found


def _socket(endpoint: str, process: int | None = None) -> tuple[int, int] | str:
    """Return the file at that place in a process's file system, or, if that cannot be read, the place; by default in
    this process."""
    try:
        path = os.path.realpath(socket_path(endpoint))
    except ValueError:  # within that agent, or nothing is recorded yet
        return endpoint
    try:
        found = os.stat(path if process is None else f"/proc/{process}/root{path}")
    except OSError:
        return path
    return found.st_dev, found.st_ino
