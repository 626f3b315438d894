"""The content of manifests' places: a directory of files on the host, and the server of a URL.

A directory is recorded as names and stamps, without content: ``host.manifests`` makes these records and
``sources.file`` compares them, and a file with an unchanged stamp is not read again. The record has the directory's
identity, too: after an unmount a path leads to another one. The answer of a URL is made by ``kube.manifest_url`` for
``sources.url``.
"""

from __future__ import annotations

from enum import Enum

from trikubelet.model.frozen import Frozen


class EntryKind(Enum):
    """The kind of file behind a name, links followed. LOST is a link to nothing, CIRCLE one that leads to no end."""

    FILE = "file"
    DIRECTORY = "directory"
    OTHER = "neither file nor directory"
    LOST = "link to nothing"
    CIRCLE = "link that leads round in a circle"


class Stamp(Frozen):
    """One state of a file. ``changed_ns`` is the later of its two times of change, in nanoseconds since the epoch; a
    copy may bring an old modification time along, but never the time of the change itself."""

    changed_ns: int
    bytes: int
    inode: int
    device: int


NO_STAMP = Stamp(0, 0, 0, 0)


class Entry(Frozen):
    """One name in the directory, as a whole path."""

    path: str
    kind: EntryKind
    stamp: Stamp = NO_STAMP


DirectoryId = tuple[int, int]
"""The identity of a directory, apart from any other in its place: its device and its inode."""


class Listing(Frozen):
    """Every name in the directory, in order, or the single file; ``directory`` is which one it was."""

    entries: tuple[Entry, ...]
    directory: DirectoryId


class ManifestAnswer(Frozen):
    """One answer. ``has_length``: the server said how much it sends, or that it is done, so that a body that was cut on
    its way is known for one; without, it cannot be distinguished from a whole one."""

    status: int
    body: bytes
    has_length: bool = True
