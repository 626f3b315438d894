"""Tunes the process of a single command, from its first import to its end.

Python is made for long-running programs. Its garbage collector scans everything several times while modules are
imported, though nothing of that is garbage, and at the end the interpreter takes every module apart. Both together take
about a sixth of the time of ``get pods``, and more if a command loads more.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from typing import NoReturn


def keep_collector_out() -> None:
    """Disable the garbage collector while modules are imported."""
    gc.disable()


def let_collector_in() -> None:
    """Enable the collector for later objects, if it was disabled."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def end(exit_code: int) -> NoReturn:
    """End the process at once: its output is flushed, and the kernel closes its files."""
    if "logging" in sys.modules:
        sys.modules["logging"].shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a failed write was reported already
            stream.flush()
    os._exit(exit_code)
