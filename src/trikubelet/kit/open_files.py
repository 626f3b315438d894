"""How many files this process may have open: what the kernel allows it, and how to be allowed more.

A shell allows 1024 where hundreds of thousands cost nothing, and every connection, watch and mounted log is one. Which
process needs how many, its composition root knows; it asks here once, before it opens any.
"""

from __future__ import annotations

import resource
import sys
from contextlib import suppress


def open_files_max() -> int:
    """As many this process may have open now."""
    return _count(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def allow_open_files(wanted: int) -> int:
    """Have the kernel allow this process so many open files, or, where it does not, as many as it ever will; how many
    it may have open now. The limit never falls below the one before."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    for soft in (wanted, min(wanted, _count(hard))):  # more than ``hard`` is root's to ask for
        if soft > open_files_max():
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard if soft <= _count(hard) else soft))
    return open_files_max()


def _count(limit: int) -> int:
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit
