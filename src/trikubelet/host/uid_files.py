"""Lists of pods' UIDs in files of the root directory, one UID a line.

    <root>/removed_pods    pods of this node whose directory is gone before their logs
    <root>/unknown_pods    pods with a directory that another node agent began (docs/decisions/0041)

A container with access to the node's directories may have written there, so only UIDs are read from a file.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from trikubelet.kit.plain_file import open_plain, put_plain
from trikubelet.kit.private_file import write_durably
from trikubelet.model.names import uid_problem

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

UNKNOWN_PODS: Final = "unknown_pods"
BYTES_MAX: Final = 1024 * 1024


def read_uids(path: Path) -> frozenset[str]:
    """Return the last written UIDs; none without a file. Other content is ignored. Raises OSError."""
    try:
        with open_plain(str(path)) as file:
            lines = file.read(BYTES_MAX).decode(errors="replace").split()
    except FileNotFoundError:
        return frozenset()
    return frozenset(line for line in lines if not uid_problem(line))


def put_uids(path: Path, uids: Collection[str]) -> None:
    """Write the file atomically, with as many UIDs as are ever read. It is not flushed: a power cut loses pods whose
    ended containers then stay. Raises OSError."""
    lines = _lines(uids)
    put_plain(path, lines[: lines.rfind(b"\n", 0, BYTES_MAX) + 1])


def put_unknown(root: Path, uids: Collection[str]) -> None:
    """Write the list of unknown pods atomically and flushed, or remove it once it would be empty. A pod that is missing
    in it would be treated as this node's own, and ended. Raises OSError, also if not all UIDs fit."""
    path = root / UNKNOWN_PODS
    if not uids:
        path.unlink(missing_ok=True)
        return
    lines = _lines(uids)
    if len(lines) > BYTES_MAX:
        raise OSError(errno.EFBIG, f"{len(uids)} unknown pods do not fit in {BYTES_MAX} bytes", str(path))
    write_durably(path, lines)


def _lines(uids: Collection[str]) -> bytes:
    return "".join(f"{uid}\n" for uid in sorted(uids)).encode()
