"""The records of sandboxes and containers in files, which survive restarts of the runtime.

    <state>/sandboxes/<sandbox>/sandbox.json       a PodSandboxStatus of the CRI
    <state>/sandboxes/<sandbox>/<container>.json   a ContainerStatus: one that may have been started

A file is written whole and flushed, in threads (``kit.disk``). That of a container is written before its process
starts, and again with its end: so the next agent knows every container that may have run, however this one ends. Files
are removed with their objects, on the request of the agent's garbage collection. Their content is what the CRI shows,
which has no environment and no secret in it. An unreadable file is logged and left out, and never ends a start.
"""

from __future__ import annotations

import logging
import os
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from google.protobuf import json_format

from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.kit.disk import on_disk
from trikubelet.kit.plain_file import read_plain
from trikubelet.kit.private_file import sync_names, write_privately
from trikubelet.kit.threads import ThreadPool
from trikubelet.model.runtime_errors import RuntimeFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

log = logging.getLogger(__name__)

T = TypeVar("T")
M = TypeVar("M", pb.PodSandboxStatus, pb.ContainerStatus)

RECORD_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of one file: more than the labels, annotations and mounts of any pod that a manifest can have."""
SANDBOXES_MAX: Final = 10_000
"""Sandboxes recorded at the same time, and containers of each. A node has a few hundred pods, and the agent keeps the
newest sandbox of a pod and the newest ended container of a name."""
CONTAINERS_MAX: Final = 10_000
THREADS_MAX: Final = 8
_SUFFIX: Final = ".json"
_SANDBOX: Final = f"sandbox{_SUFFIX}"


class Remembered(NamedTuple):
    """One sandbox of an earlier agent, and its containers that may have run."""

    sandbox: pb.PodSandboxStatus
    containers: list[pb.ContainerStatus]


class DiskRecords:
    """Owns the files with the records of sandboxes and containers. The caller must not change one of them in two tasks
    at the same time."""

    def __init__(self, state_dir: Path) -> None:
        self._directory = state_dir / "sandboxes"
        self._threads = ThreadPool("records of the embedded runtime", THREADS_MAX)

    async def load(self) -> list[Remembered]:
        """Return all records. Unreadable ones are logged. Raises OSError if there can be no records at all."""
        return await on_disk(self._threads, partial(_load, self._directory))

    async def keep_sandbox(self, status: pb.PodSandboxStatus) -> None:
        """Record a sandbox. Raises RuntimeFailure."""
        await self._write(self._directory / status.id / _SANDBOX, status)

    async def keep_container(self, sandbox_id: str, status: pb.ContainerStatus) -> None:
        """Record a container of a recorded sandbox. Raises RuntimeFailure."""
        await self._write(self._path_of(sandbox_id, status.id), status)

    async def forget_container(self, sandbox_id: str, id_: str) -> None:
        """Remove the record of a container, if there is one. Raises RuntimeFailure."""
        path = self._path_of(sandbox_id, id_)
        await self._run(path, partial(_remove, path))

    async def forget_sandbox(self, id_: str) -> None:
        """Remove the record of a sandbox and of all its containers. Raises RuntimeFailure."""
        path = self._directory / id_
        await self._run(path, partial(_remove_all, path))

    def _path_of(self, sandbox_id: str, container_id: str) -> Path:
        return self._directory / sandbox_id / f"{container_id}{_SUFFIX}"

    async def _write(self, path: Path, status: M) -> None:
        await self._run(path, partial(_write, path, status))

    async def _run(self, path: Path, work: Callable[[], None]) -> None:
        try:
            await on_disk(self._threads, work, str(path))
        except OSError as error:
            raise RuntimeFailure(f"cannot change the record {path}: {error.strerror or error}") from error

    def __repr__(self) -> str:
        return f"<DiskRecords {self._directory}>"


# ---- in threads ----


def _write(path: Path, status: pb.PodSandboxStatus | pb.ContainerStatus) -> None:
    content = json_format.MessageToJson(status, indent=1).encode()
    if len(content) > RECORD_BYTES_MAX:
        raise RuntimeFailure(
            f"cannot change the record {path}: it would have {len(content)} bytes, more than {RECORD_BYTES_MAX}"
        )
    if not path.parent.is_dir():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync_names(path.parent.parent)
    write_privately(path, content)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def _remove_all(directory: Path) -> None:
    """Remove a sandbox's directory. The sandbox's own file goes last: without it, the rest is a damaged record."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return
    for name in sorted(names, key=lambda name: name == _SANDBOX):
        (directory / name).unlink(missing_ok=True)
    directory.rmdir()
    sync_names(directory.parent)


def _load(directory: Path) -> list[Remembered]:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = []
    for path in _entries(directory, SANDBOXES_MAX):
        one = _load_sandbox(path)
        if one is not None:
            found.append(one)
    return found


def _load_sandbox(directory: Path) -> Remembered | None:
    sandbox = _read(directory / _SANDBOX, directory.name, pb.PodSandboxStatus)
    if sandbox is None:
        return None
    paths = [path for path in _entries(directory, CONTAINERS_MAX) if path.name != _SANDBOX]
    containers = [_read(path, path.name.removesuffix(_SUFFIX), pb.ContainerStatus) for path in paths]
    return Remembered(sandbox, [one for one in containers if one is not None])


def _entries(directory: Path, count_max: int) -> Iterator[Path]:
    """Yield the entries of a directory, in the order of the names, without the half-written files of an agent that was
    killed."""
    try:
        with os.scandir(directory) as found:
            names = [entry.name for entry in islice(found, count_max + 1)]
    except OSError as error:
        log.warning("Cannot read the records in %s: %s (what has ended may run again)", directory, error.strerror)
        return
    if len(names) > count_max:
        log.warning(
            "More than %d records are in %s: the rest is left out (what has ended in their pods may run again; remove "
            "manifests that are done)",
            count_max,
            directory,
        )
    yield from (directory / name for name in sorted(names[:count_max]) if not name.startswith("."))


def _read(path: Path, id_: str, type_: type[M]) -> M | None:
    try:
        status = json_format.Parse(read_plain(path, RECORD_BYTES_MAX), type_(), ignore_unknown_fields=True)
        if status.id != id_ or not status.metadata.name:
            raise ValueError(f"it is about {status.id!r}, not {id_!r}")
    except (OSError, ValueError, RecursionError, json_format.ParseError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        log.warning("Cannot read the record %s: %s (what has ended in its pod may run again; remove it)", path, why)
        return None
    return status
