"""The encodings of text files: UTF-8, or UTF-16 with a byte order mark, which editors on Windows write.

Upstream's YAML reader accepts the same two. A UTF-16 text without its mark cannot be distinguished from a binary file.
"""

from __future__ import annotations

import codecs
from typing import Final

UTF_16: Final = "utf-16"
_UTF_16_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def encoding_of(octets: bytes) -> str:
    """Return the encoding that the first bytes of a text announce; each removes its byte order mark when it decodes."""
    is_utf_16 = octets.startswith(_UTF_16_MARKS) and not octets.startswith(codecs.BOM_UTF32_LE)
    return UTF_16 if is_utf_16 else "utf-8-sig"


def as_text(octets: bytes) -> str:
    """Return the text of these bytes, with a replacement character for everything that cannot be decoded."""
    return octets.decode(encoding_of(octets), "replace")
