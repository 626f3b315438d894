"""Replaces secrets by a mask in texts that are shown or recorded."""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "<masked>"
"""Upstream's mask in its ``/configz``."""
_USER_INFO: Final = re.compile(r"(?<=://)[^/@?#]+@")
_QUERY: Final = re.compile(r"(?<=\?).+")


def mask_url(url: str) -> str:
    """Return the URL without its user and password, and without its query, which may be a token."""
    return _QUERY.sub(MASK, _USER_INFO.sub(f"{MASK}@", url))
