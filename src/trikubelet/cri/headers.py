"""gRPC's headers: encodes and decodes deadlines and error texts in HTTP/2 header fields.

By gRPC's PROTOCOL-HTTP2.md. grpclib's functions are not used: they read the system's monotonic clock instead of Trio's,
and round a deadline down, so that a server would give up before its caller.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from collections.abc import Iterable

CONTENT_TYPE: Final = "application/grpc"
USER_AGENT: Final = "grpc-python-trikubelet"

_UNIT_SECONDS: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_TIMEOUT_MAX: Final = 99_999_999  # the field has at most eight digits
_PLAIN: Final = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")


def encode_timeout(seconds: float) -> str:
    """Return ``grpc-timeout`` for ``seconds`` (0 or more) from now, in the finest unit that fits, rounded up."""
    for unit, divisor in (("n", 1e9), ("u", 1e6), ("m", 1e3), ("S", 1.0)):
        count = math.ceil(max(seconds, 0.0) * divisor)
        # Nanoseconds only below a millisecond: clocks are not that precise.
        if count <= (1_000_000 if unit == "n" else _TIMEOUT_MAX):
            return f"{count}{unit}"
    return f"{min(math.ceil(seconds / 3600), _TIMEOUT_MAX)}H"


def decode_timeout(value: str) -> float:
    """Return the seconds of a ``grpc-timeout``. Raises ValueError for an invalid value."""
    digits, unit = value[:-1], value[-1:]
    if unit not in _UNIT_SECONDS or not (digits.isascii() and digits.isdigit()) or len(digits) > 8:
        raise ValueError(f"grpc-timeout: {value!r} is not up to eight digits and one of H M S m u n")
    return int(digits) * _UNIT_SECONDS[unit]


def encode_message(text: str) -> str:
    """Return ``grpc-message``: UTF-8, percent-encoded except for printable ASCII; spaces at either end are encoded,
    too, because a header field may not have them."""
    encoded = quote(text, safe=_PLAIN, encoding="utf-8", errors="replace")
    inner = encoded.strip(" ")
    before = len(encoded) - len(encoded.lstrip(" "))
    return "%20" * before + inner + "%20" * (len(encoded) - len(inner) - before)


def decode_message(value: str) -> str:
    """Return the text; bytes that are not UTF-8 are replaced, because an error about an error text would hide it."""
    return unquote(value, encoding="utf-8", errors="replace")


def to_dict(headers: Iterable[tuple[bytes | str, bytes | str]]) -> dict[str, str]:
    """Return header fields by name; the last one of a repeated field counts."""
    return {_text(name): _text(value) for name, value in headers}


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")
