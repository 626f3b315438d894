"""Being held to the modes of files, as an ordinary user is, also where the tests run as root."""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_VERSION_3 = 0x20080522
_OVERRIDES = 1 << 1 | 1 << 2 | 1 << 3
"""CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER."""
_EFFECTIVE = 0


@contextmanager
def modes_count() -> Iterator[None]:
    """Within the block this thread may do what its user's modes allow and no more (capget(2))."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, held = (ctypes.c_uint32 * 2)(_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    assert 0 == libc.capget(header, held)
    before = held[_EFFECTIVE]
    held[_EFFECTIVE] = before & ~_OVERRIDES
    assert 0 == libc.capset(header, held)
    try:
        yield
    finally:
        held[_EFFECTIVE] = before
        assert 0 == libc.capset(header, held)
