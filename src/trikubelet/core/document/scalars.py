"""The values of unquoted YAML scalars, as the tools around Kubernetes read them (YAML 1.1 like Go's reader).

``yes``, ``on`` and ``y`` are booleans, ``0644`` and ``0o644`` are octal, ``1_000`` is a number, dates are strings, and
there are no sexagesimal numbers. Whole floats become integers, because Go's JSON writer writes them so.
"""

from __future__ import annotations

import re
from math import isinf, isnan

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = ("y", "yes", "true", "on")
_FALSE = ("n", "no", "false", "off")
_BOOLS = {
    form: value
    for words, value in ((_TRUE, True), (_FALSE, False))
    for word in words
    for form in (word, word.capitalize(), word.upper())
}
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NO_NUMBER = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_EXACT_MAX = 1e21
"""Below this limit Go writes a whole float without an exponent."""
DIGITS_MAX = 400
"""A longer run of digits is text, because it is never meant as a number, and slow to convert."""


def resolve(text: str) -> object:
    """Return the value of a plain scalar. Raises ValueError for numbers that JSON cannot hold (infinities,
    not-a-number)."""
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if text[0] not in "+-.0123456789" or len(text) > DIGITS_MAX:
        return text
    if _NO_NUMBER.fullmatch(text):
        raise ValueError(f"{text} is not a number JSON can hold")
    digits = text.replace("_", "")
    if match := _INTEGER.fullmatch(digits):
        return _integer(match)
    if _FLOAT.fullmatch(digits):
        return _float(digits)
    return text


def _integer(match: re.Match[str]) -> int:
    sign, hexadecimal, binary, octal, decimal = match.groups()
    if hexadecimal:
        value = int(hexadecimal, 16)
    elif binary:
        value = int(binary, 2)
    elif octal:
        value = int(octal, 8)
    else:
        value = int(decimal)
    return -value if sign == "-" else value


def _float(digits: str) -> int | float:
    value = float(digits)
    if isinf(value) or isnan(value):
        raise ValueError(f"{digits} is larger than any number that can be kept")
    return int(value) if value.is_integer() and abs(value) < _EXACT_MAX else value


def key_text(value: object) -> str:
    """Return a scalar as a key of a JSON object. Raises ValueError if it cannot be one."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        raise ValueError("a key cannot be null")
    return str(value)
