"""Parses the text of a flag into the value for the configuration.

There is one reader per form. Each takes the flag's texts in the order they were given, because lists and maps grow when
their flag is repeated, as in Go's flag libraries, and of scalars the last one counts. All raise ValueError with a
sentence for the operator. Durations and amounts stay text, which the configuration parses.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from trikubelet.app.flag_table import Form
from trikubelet.model.feature_gates import parse_gates

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_BOOLS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_INT: Final = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|0|[1-9][0-9]*)")


def read(form: Form, texts: Sequence[str]) -> Any:
    """Return the value of a flag of this form with these texts. Raises ValueError."""
    assert texts
    return _READERS[form](texts)


def _text(texts: Sequence[str]) -> str:
    return texts[-1]


def _bool(texts: Sequence[str]) -> bool:
    value = [_one_bool(text) for text in texts]  # an invalid value is an error even where a later one overrides it
    return value[-1]


def _one_bool(text: str) -> bool:
    if text not in _BOOLS:
        raise ValueError(f"{text!r} is not true or false")
    return _BOOLS[text]


def _int(texts: Sequence[str]) -> int:
    return [_one_int(text) for text in texts][-1]


def _one_int(text: str) -> int:
    if _INT.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a whole number")
    octal = re.fullmatch(r"([-+]?)0([0-7]+)", text)
    return int(f"{octal[1]}{octal[2]}", 8) if octal else int(text, 0)


def _float(texts: Sequence[str]) -> float:
    try:
        return float(texts[-1])
    except ValueError:
        raise ValueError(f"{texts[-1]!r} is not a number") from None


def _list(texts: Sequence[str]) -> list[str]:
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def _pairs(texts: Sequence[str], separator: str, what: str) -> list[tuple[str, str]]:
    pairs = []
    for part in _list(texts):
        key, found, value = part.partition(separator)
        if not found or not key.strip():
            raise ValueError(f"{part!r} is not {what}")
        pairs.append((key.strip(), value.strip()))
    return pairs


def _map(texts: Sequence[str]) -> dict[str, str]:
    return dict(_pairs(texts, "=", "a key and a value, KEY=VALUE"))


def _thresholds(texts: Sequence[str]) -> dict[str, str]:
    return dict(_pairs(texts, "<", "a threshold, SIGNAL<AMOUNT"))


def _headers(texts: Sequence[str]) -> dict[str, list[str]]:
    headers: dict[str, list[str]] = {}
    for name, value in _pairs(texts, ":", "a header, NAME:VALUE"):
        headers.setdefault(name, []).append(value)
    return headers


def _taints(texts: Sequence[str]) -> list[dict[str, str]]:
    taints = []
    for part in _list(texts):
        rest, found, effect = part.rpartition(":")
        key, _, value = rest.partition("=")
        if not found or not key or not effect:
            raise ValueError(f"{part!r} is not a taint, KEY=VALUE:EFFECT")
        taints.append({"key": key, "value": value, "effect": effect})
    return taints


def _modules(texts: Sequence[str]) -> list[dict[str, object]]:
    pairs = _pairs(texts, "=", "a pattern and its verbosity, PATTERN=N")
    return [{"filePattern": pattern, "verbosity": _one_int(level)} for pattern, level in pairs]


def _memory(texts: Sequence[str]) -> list[dict[str, object]]:
    reservations: list[dict[str, object]] = []
    for part in (part for text in texts for part in text.split(";") if part.strip()):
        node, found, limits = part.partition(":")
        if not found:
            raise ValueError(f"{part!r} is not a reservation, NODE:TYPE=AMOUNT,…")
        reservations.append({"numaNode": _one_int(node.strip()), "limits": _map([limits])})
    return reservations


def _gates(texts: Sequence[str]) -> dict[str, bool]:
    return parse_gates(",".join(texts))


_READERS: Final[dict[Form, Callable[[Sequence[str]], Any]]] = {
    Form.TEXT: _text,
    Form.PATH: _text,
    Form.BOOL: _bool,
    Form.INT: _int,
    Form.FLOAT: _float,
    Form.DURATION: _text,
    Form.LIST: _list,
    Form.MAP: _map,
    Form.THRESHOLDS: _thresholds,
    Form.HEADERS: _headers,
    Form.TAINTS: _taints,
    Form.MODULES: _modules,
    Form.MEMORY: _memory,
    Form.GATES: _gates,
}
