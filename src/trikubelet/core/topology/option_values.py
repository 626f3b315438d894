"""Values of policy options, which are texts in the configuration."""

from __future__ import annotations

from typing import Final

_BOOLEANS: Final = dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "FALSE", "false", "False"), False
)
"""The texts that Go's strconv.ParseBool takes."""


def parse_boolean(name: str, text: str) -> bool:
    """Return the value of an option. Raises ValueError with upstream's text."""
    if text not in _BOOLEANS:
        raise ValueError(f'bad value for option "{name}": strconv.ParseBool: parsing "{text}": invalid syntax')
    return _BOOLEANS[text]
