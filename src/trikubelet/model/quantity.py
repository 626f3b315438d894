"""Kubernetes quantities: exact numbers with SI (``m``, ``k``, …), binary (``Ki``, …) or decimal-exponent suffixes.

Kept exact as a fraction; rounding is always away from zero, because half a byte or half a millicore that was asked for
is a whole one. Nothing is finer than a nano or larger than 2^63-1, as upstream's resource.Quantity has it; a finer
number is rounded, a larger one is that bound. Compare two quantities by comparing what ``parse`` gives.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil

_SI = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_FORM = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:([eE][+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII)
_ELSEWHERE = re.compile(
    r"(?P<digits>[+-]?\d+(?:\.\d*)?)\s*"
    r"(?:(?P<letter>[kKmMgGtTpPeE])?(?P<binary>[iI])?(?P<unit>[bB]|[bB]ytes?)?|[cC]pus?|[cC]ores?)",
    re.ASCII,
)
"""Amounts of bytes and cores as other programs write them."""
_CHARACTERS_MAX = 400
"""A longer text is no meaningful amount."""
_AMOUNT_MAX = 2**63 - 1
_NANO = 10**9
_KEPT_MAX = 512
"""A node's pods ask for few amounts, and for each many times."""
_SUFFIXES = {exponent: suffix for suffix, exponent in _SI.items()}


@lru_cache(_KEPT_MAX)
def parse(text: str | int | float) -> Fraction:
    """The exact value. Raises ValueError, saying what a quantity looks like."""
    sign, digits, exponent, suffix = _parts(text)
    value = Fraction(digits)
    if exponent:
        value *= Fraction(10) ** int(exponent[1:])
    elif suffix in _BINARY:
        value *= 2 ** _BINARY[suffix]
    elif suffix:
        value *= Fraction(10) ** _SI[suffix]
    value = min(Fraction(ceil(value * _NANO), _NANO), Fraction(_AMOUNT_MAX))
    return -value if sign == "-" else value


def whole(text: str | int | float) -> int:
    """The value in its unit (bytes, cores, pods), rounded away from zero. Raises ValueError as ``parse`` does."""
    return _away_from_zero(parse(text))


def milli(text: str | int | float) -> int:
    """The value in thousandths (millicores), rounded away from zero. Raises ValueError as ``parse`` does."""
    return _away_from_zero(parse(text) * 1000)


def canonical(text: str | int | float) -> str:
    """The one way to write this amount in the family of suffixes it came in: a whole number before the largest suffix
    that leaves it whole. ``1500m`` for ``1.5``, ``1Gi`` for ``1024Mi``, ``1e3`` for ``1000e0``.

    Binary suffixes are kept for amounts of 1024 and more and cannot hold fractions, which are rounded. Raises
    ValueError as ``parse`` does.
    """
    value = parse(text)
    _, _, exponent, suffix = _parts(text)
    if suffix in _BINARY and abs(value) >= 1024:
        return _with_binary_suffix(_away_from_zero(value))
    return _with_decimal_suffix(value, as_exponent=bool(exponent))


def meant_by(text: str | int | float) -> str:
    """The remedy for an amount as people write it who mean bytes or cores, such as ``64MB``; empty where it is not
    known what is meant."""
    shown = str(text).strip()
    found = _ELSEWHERE.fullmatch(shown) if len(shown) <= _CHARACTERS_MAX else None
    if found is None:
        return ""
    digits, letter, binary = found["digits"], (found["letter"] or "").upper(), found["binary"]
    if not letter:
        return "" if binary else f'did you mean "{digits}"?'
    if found["letter"] == "m" and not (binary or found["unit"]):
        return f'did you mean "{digits}m"?'
    decimal = f' or "{digits}{"k" if letter == "K" else letter}"'
    return f'did you mean "{digits}{letter}i"{"" if binary else decimal}?'


def _parts(text: str | int | float) -> tuple[str, str, str, str]:
    shown = str(text).strip()  # as upstream reads one from an object
    match = _FORM.fullmatch(shown) if len(shown) <= _CHARACTERS_MAX else None
    if match is None:
        raise ValueError(f"{shown[:60]!r} is not a quantity: write a number with a suffix such as 500m, 1Gi or 2e3")
    sign, digits, exponent, suffix = match.groups(default="")
    return sign, digits, exponent, suffix


def _away_from_zero(value: Fraction) -> int:
    return ceil(value) if value >= 0 else -ceil(-value)


def _with_binary_suffix(value: int) -> str:
    for suffix, power in reversed(_BINARY.items()):
        if value % (1 << power) == 0:
            return f"{value >> power}{suffix}"
    return str(value)


def _with_decimal_suffix(value: Fraction, *, as_exponent: bool) -> str:
    if value == 0:
        return "0"
    for exponent in sorted(_SUFFIXES, reverse=True):
        scaled = value / Fraction(10) ** exponent
        if scaled.denominator == 1:
            ending = f"e{exponent}" if as_exponent and exponent else "" if as_exponent else _SUFFIXES[exponent]
            return f"{scaled.numerator}{ending}"
    raise AssertionError("parse leaves nothing finer than a nano")
