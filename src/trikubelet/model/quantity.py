"""Kubernetes quantities: exact numbers with SI (``m``, ``k``, …), binary (``Ki``, …) or decimal-exponent suffixes.

Kept exact as a fraction; rounding is always up, because half a byte or half a millicore that was asked for is a whole
one (upstream: resource.Quantity).
"""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil

_SI = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_FORM = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:([eE][+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i)?)")


def parse(text: str | int | float) -> Fraction:
    """The exact value. Raises ValueError, saying what a quantity looks like."""
    match = _FORM.fullmatch(str(text).strip())
    if match is None:
        raise ValueError(f"{str(text)!r} is not a quantity: write a number with a suffix such as 500m, 1Gi or 2e3")
    sign, digits, exponent, suffix = match.groups()
    value = Fraction(digits)
    if exponent:
        value *= Fraction(10) ** int(exponent[1:])
    elif suffix in _BINARY:
        value *= Fraction(2) ** _BINARY[suffix]
    elif suffix:
        value *= Fraction(10) ** _SI[suffix]
    return -value if sign == "-" else value


def whole(text: str | int | float) -> int:
    """The value in its unit (bytes, cores, pods), rounded up."""
    return ceil(parse(text))


def milli(text: str | int | float) -> int:
    """The value in thousandths (millicores), rounded up."""
    return ceil(parse(text) * 1000)
