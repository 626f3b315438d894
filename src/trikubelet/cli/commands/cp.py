"""``trikubelet cp SOURCE DESTINATION``: copy files between this machine and a container, written ``POD:PATH``.

    POD:PATH ─► exec tar in the container ─► its output ─► unpacked here       (and the other way round)

The container needs a tar of its own. Its output is not trusted (``cli/archive.py``).
"""

from __future__ import annotations

import argparse
import os
import posixpath
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from trikubelet.cli import archive, asking, blocking
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.remote_process import RemoteProcess
from trikubelet.cli.talking import conversation
from trikubelet.cli.words.cp import parser
from trikubelet.model.standard_streams import StandardStreams

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

STDOUT: Final = "-"
"""A file with that name is written ``./-``."""
REASON_SECONDS_MAX: Final = 1.0
"""Seconds that a failed connection waits for the local side's error, which may be the reason."""
_BYTES = 32 * 1024


class Place(NamedTuple):
    """One side of a copy. ``pod`` is empty for this machine."""

    namespace: str
    pod: str
    path: str


def read_place(said: str, namespace: str) -> Place:
    """Return a path here, or in a pod. A colon after a slash is part of a path."""
    before, colon, path = said.partition(":")
    if not colon or before.startswith((".", "/")) or before.count("/") > 1:
        return Place("", "", said)
    space, slash, pod = before.rpartition("/")
    return Place(space if slash else namespace, pod, path)


def run(argv: Sequence[str]) -> int:
    """Run ``cp`` and return the exit code. Raises CommandFailed and OSError."""
    args = parser().parse_intermixed_args(argv)
    source, destination = (read_place(said, args.namespace) for said in (args.source, args.destination))
    if bool(source.pod) is bool(destination.pod):
        parser().error("one of the two must be in a pod, written POD:PATH, and the other local")
    if not (source.path and destination.path):
        parser().error("a path is missing")
    if source.path == STDOUT and not source.pod:
        parser().error("cp reads no standard input: use `trikubelet exec -i POD -- sh -c 'cat > FILE'`, or write ./-")
    (_fetch if source.pod else _send)(args, source, destination)
    return 0


def _fetch(args: argparse.Namespace, source: Place, destination: Place) -> None:
    """Copy out of the container. The source is copied into an existing directory; otherwise the destination is its new
    name. Raises CommandFailed, also if nothing arrives, and OSError."""
    directory, name = posixpath.split(source.path.rstrip("/") or "/")
    into, renamed = _target(destination.path, name)
    command = ["tar", "cf", "-", "-C", directory or ".", "--", name or "."]
    read_end, write_end = os.pipe()

    async def receive() -> None:
        try:
            await _talk(args, source, command, bytes, partial(archive.write_all, write_end))
        finally:
            os.close(write_end)

    if destination.path == STDOUT:
        take = partial(archive.pour, read_end, sys.stdout.fileno())
    elif archive.is_special(destination.path):
        take = partial(archive.pour, read_end, destination.path)
    else:
        take = partial(archive.unpack, read_end, into, name, renamed)
    taking = _Beside(take)
    blocking.run(receive)
    if not taking.returned():  # a tar that fails has reported why by now
        raise CommandFailed("tar succeeded in the container but sent nothing (is it a real tar?)")


def _target(path: str, name: str) -> tuple[str, str]:
    """Return the directory to write to, and the name of the source there."""
    if os.path.isdir(path):
        return path, name
    directory, renamed = os.path.split(path.rstrip("/"))
    return directory or ".", renamed


def _own_name(path: str) -> str:
    return os.path.basename(os.path.abspath(path))


def _send(args: argparse.Namespace, source: Place, destination: Place) -> None:
    """Copy into the container. A path that ends with a slash is a directory to copy into. Raises OSError for a missing
    source, before anything is started."""
    os.stat(source.path)
    directory, name = posixpath.split(destination.path)
    name = name or _own_name(source.path)
    read_end, write_end = os.pipe()

    async def send() -> None:
        try:
            command = ["tar", "xf", "-", "-C", directory or "."]
            await _talk(args, destination, command, partial(os.read, read_end, _BYTES), _nothing)
        finally:
            os.close(read_end)

    packing = _Beside(partial(archive.pack, write_end, source.path, name))
    try:
        blocking.run(send)
    except CommandFailed:
        packing.wait(REASON_SECONDS_MAX)  # a tar that gets half an archive fails, too
        raise
    packing.returned()


class _Beside(Generic[T]):
    """Owns the result of work in a thread. The process may end before the thread does, if a disk hangs."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._returned: list[T] = []
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._returned.append(self._work())
        except BaseException as error:
            self._failed = error

    def wait(self, seconds_max: float | None = None) -> None:
        """Wait until it has ended, or for that long. Raises its error."""
        self._thread.join(seconds_max)
        if self._failed is not None:
            raise self._failed

    def returned(self) -> T:
        """Wait until it has ended and return its result. Raises its error."""
        self.wait()
        return self._returned[0]


async def _talk(
    args: argparse.Namespace,
    place: Place,
    command: Sequence[str],
    read: Callable[[], bytes],
    output: Callable[[bytes], object],
) -> None:
    """Run a command in the container. Raises CommandFailed with its error output."""
    agent = asking.agent_of(args)
    pod = await asking.pod_named(agent, place.namespace, place.pod)
    container = args.container or asking.default_container(pod)
    streams = StandardStreams(stdin=read is not bytes, stdout=True, stderr=True, tty=False)
    query = [("command", word) for word in command] + [("output", "1"), ("error", "1")]
    query += [("input", "1")] if streams.stdin else []
    errors = bytearray()
    async with conversation(agent, pod, container, "exec", query) as stream:
        code = await RemoteProcess(stream, streams, read, output, partial(_keep, errors)).run()
    if code:
        raise CommandFailed(errors.decode(errors="replace").strip() or f"tar ended with {code} in the container")


def _keep(errors: bytearray, said: bytes) -> None:
    errors += said[: _BYTES - len(errors)]


def _nothing(_: bytes) -> None:
    """Discard the data."""
