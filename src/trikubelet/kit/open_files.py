"""The limit of open files of this process, and raising it.

A shell's default is 1024, although hundreds of thousands cost nothing; and every connection, watch and log is an open
file. The composition root of each process knows how many it needs, and raises the limit once, before it opens any.
"""

from __future__ import annotations

import resource
import sys
from contextlib import suppress


def open_files_max() -> int:
    """Return the current limit."""
    return _count(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def allow_open_files(wanted: int) -> int:
    """Raise the limit to ``wanted``, or as far as the kernel permits. Return the limit, which is never lowered."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    for soft in (wanted, min(wanted, _count(hard))):  # only root may exceed ``hard``
        if soft > open_files_max():
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard if soft <= _count(hard) else soft))
    return open_files_max()


def _count(limit: int) -> int:
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit
