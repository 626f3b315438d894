"""The last bytes of containers' output: of a termination message, of a log and its newest rotated part."""

from __future__ import annotations

import os
from pathlib import Path

from trikubelet.core.log_rotation import is_finished, stem
from trikubelet.host.directory_scan import entries
from trikubelet.kit.plain_file import open_plain


def end_of(path: str, bytes_max: int) -> bytes:
    """Return the last bytes of a file; empty if it cannot be read, or is not a regular file."""
    try:
        with open_plain(path) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - bytes_max))
            return file.read(bytes_max)
    except OSError:
        return b""


def end_with_part(path: str, bytes_max: int) -> bytes:
    """Return the last bytes of a log, and before them those of its newest rotated part, if it has too few."""
    end = end_of(path, bytes_max)
    if len(end) < bytes_max and (part := newest_part(path)):
        end = end_of(part, bytes_max - len(end)) + end
    return end


def newest_part(path: str) -> str:
    """Return the log's newest rotated part, if it is not compressed; empty without one. In a directory with too many
    names to read, the newest one found."""
    directory, start = os.path.dirname(path), f"{os.path.basename(path)}."
    newest = ""
    try:
        for entry in entries(Path(directory)):
            name = entry.name.removeprefix(start)
            if entry.name.startswith(start) and name > newest and is_finished(name):
                newest = name
    except OSError:
        return ""
    return f"{path}.{newest}" if newest and stem(newest) == newest else ""
