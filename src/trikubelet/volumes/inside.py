"""Reading a file that a container left in a volume, without being led out of it or blocked.

A container may put anything into its volume, and change it while we look. So the file is found one name at a time
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
    """A plain file below ``root``. Raises OSError: EFBIG for one that is larger, EINVAL for what is no plain file, and
    those of ``open_beneath``."""
    found = open_beneath(root, path, make=False)
    try:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise OSError(errno.EINVAL, "not a plain file")
        # The same file, whatever its name leads to by now; opened without waiting for who has a lease on it.
        with open_plain(f"/proc/self/fd/{found}") as file:
            content = file.read(bytes_max + 1)
    finally:
        os.close(found)
    if len(content) > bytes_max:
        raise OSError(errno.EFBIG, f"larger than {bytes_max} bytes")
    return content


def read_variables(root: str, path: str, keys: Collection[str]) -> EnvFile:
    """The wanted values of a file of variables. It is parsed here, where it is read: in a thread, for who wrote it may
    have made it as long to parse as its size allows. Raises OSError as ``read_file`` does."""
    return read_env_file(read_file(root, path, BYTES_MAX), keys)
