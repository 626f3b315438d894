"""A file whose disk says no when it is closed, as FUSE may, which is asked at each close."""

from __future__ import annotations

import errno
import io


class FailsToClose(io.BufferedReader):
    """It is closed all the same."""

    def close(self) -> None:
        was_open = not self.closed
        super().close()
        if was_open:
            raise OSError(errno.EIO, "of the disk")
