"""The process that a command has for itself: from its first import to its end.

Python is made for programs that run for long. Its garbage collector looks through everything several times while
modules are imported, though nothing of that is garbage, and at the end the interpreter takes every module apart. Both
together take about a sixth of the time of ``get pods``, and more where a command loads more.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from typing import NoReturn


def keep_collector_out() -> None:
    """Have the garbage collector wait while modules are imported."""
    gc.disable()


def let_collector_in() -> None:
    """Have the collector work from now on, on what comes now, if it was kept out."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def end(exit_code: int) -> NoReturn:
    """End the process as it is: what it has said is written, and what it holds open the kernel closes."""
    if "logging" in sys.modules:
        sys.modules["logging"].shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # what cannot be written has been reported
            stream.flush()
    os._exit(exit_code)
