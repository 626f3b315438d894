"""Which streams of a process a client holds. Apart from ``model.runtime``, which commands do not load."""

from __future__ import annotations

from typing import NamedTuple


class StandardStreams(NamedTuple):
    """The streams of a process that a client wants to hold, and whether they are a terminal, which has no
    ``stderr``."""

    stdin: bool = False
    stdout: bool = True
    stderr: bool = True
    tty: bool = False
