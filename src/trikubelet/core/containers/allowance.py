"""Limits the amount of data that is generated from a pod's spec. A few hundred bytes of a spec can expand to gigabytes:
a variable that names the one before it eight times, and so on; or the pod's annotations, repeated in a thousand
variables or files. All generated data is counted before it is joined or kept, so that data over the limit is never
held. Intermediate results count: a variable that replaces another of its name has cost its time.
"""

from __future__ import annotations

from typing import Final

MIB: Final = 1024 * 1024
CONTAINER_BYTES_MAX: Final = 6 * MIB
"""The limit for a container's variables, command, arguments and sub-paths together, without unused variables of
services. Linux runs no program with more in its arguments and environment, however large its stack may be
(bprm_stack_limits: three quarters of _STK_LIM); and a call to the runtime has room for it."""
ENV_FILES_BYTES_MAX: Final = 6 * MIB
"""The limit for all files that a container's variables are read from (``fileKeyRef``): the same as for the variables.
Each may be 64 KiB, so this is almost a hundred of the largest."""
DOWNWARD_BYTES_MAX: Final = 4 * MIB
"""The limit for the files of the downward API in one volume. A pod's annotations are 256 KiB at most, so this is all of
them in sixteen files."""
DOWNWARD_FILES: Final = "the volume's files of the downward API"

VOLUME_BYTES_MAX: Final = 64 * MIB
"""The limit for all files of a volume made of data. API servers limit objects to 1.5 MiB, so this is more than forty of
the largest, each at one path."""
VOLUME_FILES: Final = "the volume's files"
VALUES: Final = "the values that the volume's sources name"
"""Counted besides the files, because a source that fails in the end has no files."""


class TooLarge(ValueError):
    """More than is allowed. The caller must stop generating."""


class Allowance:
    """Owns the number of bytes generated so far for one container or volume, which may be at most ``bytes_max``."""

    def __init__(self, bytes_max: int, what: str) -> None:
        """``what``: the things that are counted together, in a user's words."""
        self._bytes_max = bytes_max
        self._what = what
        self._bytes = 0

    def counted(self, text: str, where: str) -> str:
        """Count the text and return it. Raises TooLarge, which names ``where``, above the limit."""
        # As UTF-8, like on disk and for the runtime, which reject other text themselves.
        self.count(len(text) if text.isascii() else len(text.encode(errors="surrogatepass")), where)
        return text

    def count(self, size: int, where: str) -> None:
        """Count so many bytes more. Raises TooLarge, like ``counted``."""
        self._bytes += size
        if self._bytes > self._bytes_max:
            raise TooLarge(f"{where}: with it {self._what} are larger than {self._bytes_max} bytes")


def of_container() -> Allowance:
    """Return the allowance of one container."""
    return Allowance(CONTAINER_BYTES_MAX, "the container's variables, command, arguments and sub-paths")


def of_env_files() -> Allowance:
    """Return the allowance for files that one container's variables are read from."""
    return Allowance(ENV_FILES_BYTES_MAX, "the files that the container's variables come from")
