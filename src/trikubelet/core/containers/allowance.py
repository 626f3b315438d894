"""How much may be made of what a pod says. A few hundred bytes of a spec can ask for gigabytes: a variable that names
the one before it eight times, and so on; the pod's annotations once more for each of a thousand variables or files.

Whatever is made is counted here before it is joined or kept, so that what is too large is never held. What counts is
what was made, and not what stays in the end: a variable that replaces another of its name has cost its time.
"""

from __future__ import annotations

from typing import Final

MIB: Final = 1024 * 1024
CONTAINER_BYTES_MAX: Final = 6 * MIB
"""Of a container's variables, command, arguments and sub-paths together, without the variables of services that it does
not refer to. Linux runs no program with more in its arguments and environment, however large its stack may be
(bprm_stack_limits: three quarters of _STK_LIM); and a call to the runtime has room for it."""
ENV_FILES_BYTES_MAX: Final = 6 * MIB
"""Of the files that a container's variables are read from (``fileKeyRef``), together: as much as they may come to. Each
may be 64 KiB, so this is almost a hundred of the largest."""
DOWNWARD_BYTES_MAX: Final = 4 * MIB
"""Of the files of the downward API in one volume. A pod's annotations are 256 KiB at most, so this is all of them in
sixteen files."""
DOWNWARD_FILES: Final = "the volume's files of the downward API"

VOLUME_BYTES_MAX: Final = 64 * MIB
"""Of all files of a volume made of data. An API server keeps no object that is larger than 1.5 MiB, so this is more
than forty of the largest, each at one path."""
VOLUME_FILES: Final = "the volume's files"
VALUES: Final = "the values that the volume's sources name"
"""Counted beside the files, for a source that fails in the end has none."""


class TooLarge(ValueError):
    """More than is allowed. Whoever makes more of the same is not to go on."""


class Allowance:
    """Owns how much was made so far of what may be no more than ``bytes_max``, of one container or volume."""

    def __init__(self, bytes_max: int, what: str) -> None:
        """``what``: the things that are counted together, in a user's words."""
        self._bytes_max = bytes_max
        self._what = what
        self._bytes = 0

    def counted(self, text: str, where: str) -> str:
        """The same text. Raises TooLarge, which names ``where``, for what is no longer within the bound."""
        # As UTF-8, which it is to a runtime and on a disk; text that is no UTF-8 is refused there, and not here.
        self.count(len(text) if text.isascii() else len(text.encode(errors="surrogatepass")), where)
        return text

    def count(self, size: int, where: str) -> None:
        """So many bytes more. Raises as ``counted`` does."""
        self._bytes += size
        if self._bytes > self._bytes_max:
            raise TooLarge(f"{where}: with it {self._what} are larger than {self._bytes_max} bytes")


def of_container() -> Allowance:
    """What may be made for one container."""
    return Allowance(CONTAINER_BYTES_MAX, "the container's variables, command, arguments and sub-paths")


def of_env_files() -> Allowance:
    """What may be read for one container's variables."""
    return Allowance(ENV_FILES_BYTES_MAX, "the files that the container's variables come from")
