"""The encodings of a text that a person saved: UTF-8, or UTF-16 with a byte order mark, as editors on Windows write it.

Upstream's YAML reader takes the same two. A UTF-16 text without its mark cannot be told from a binary file.
"""

from __future__ import annotations

import codecs
from typing import Final

UTF_16: Final = "utf-16"
_UTF_16_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def encoding_of(octets: bytes) -> str:
    """The encoding that a text's first bytes announce; each removes its byte order mark when it decodes."""
    is_utf_16 = octets.startswith(_UTF_16_MARKS) and not octets.startswith(codecs.BOM_UTF32_LE)
    return UTF_16 if is_utf_16 else "utf-8-sig"


def as_text(octets: bytes) -> str:
    """The text of these bytes, with a replacement character for everything that cannot be decoded."""
    return octets.decode(encoding_of(octets), "replace")
