"""Reads a file that a container left in a volume, without leaving the volume or blocking.

A container may put anything into its volume, and change it at any time. So the file is found one name at a time
(``host.beneath``), and its type is checked before it is opened: a pipe without a writer would block forever.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from trikubelet.core.containers.env_file import BYTES_MAX, read_env_file
from trikubelet.host.beneath import open_beneath
from trikubelet.kit.plain_file import open_plain

if TYPE_CHECKING:
    from collections.abc import Collection

    from trikubelet.core.containers.env_file import EnvFile


def read_file(root: str, path: str, bytes_max: int) -> bytes:
    """Return the content of a regular file below ``root``. Raises OSError: EFBIG for a larger one, EINVAL if it is not
    a regular file, and the errors of ``open_beneath``."""
    found = open_beneath(root, path, make=False)
    try:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        # The same file, whatever its name leads to by now; opened without waiting for a lease on it.
        with open_plain(f"/proc/self/fd/{found}") as file:
            content = file.read(bytes_max + 1)
    finally:
        os.close(found)
    if len(content) > bytes_max:
        raise OSError(errno.EFBIG, f"larger than {bytes_max} bytes")
    return content


def read_variables(root: str, path: str, keys: Collection[str]) -> EnvFile:
    """Return the requested values of an environment file. It is parsed here, in the thread that reads it, because its
    author may have made it as slow to parse as its size allows. Raises OSError like ``read_file``."""
    return read_env_file(read_file(root, path, BYTES_MAX), keys)
