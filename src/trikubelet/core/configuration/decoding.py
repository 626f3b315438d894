"""The strictness with which a configuration file is decoded, and the faults that lenient decoding ignores.

A node keeps its file when it is upgraded or downgraded. The file may then name a field that the other version does not
know. Lenient decoding, like upstream's, ignores such a field with a warning; the last value of a repeated key counts.
Any other fault aborts the start in both modes.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from trikubelet.core.document import is_duplicate_key
from trikubelet.core.structure import UNKNOWN_FIELD

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.model.faults import Fault


class Decoding(Enum):
    """Decides whether an unknown field or a duplicate key is a warning or a fault."""

    LENIENT = "lenient"
    STRICT = "strict"


def sort_faults(found: Iterable[Fault], decoding: Decoding) -> tuple[list[Fault], list[Fault]]:
    """Return the faults of a file and the warnings about it, in the order of ``found``."""
    faults: list[Fault] = []
    warnings: list[Fault] = []
    for fault in found:
        ignored = _ignored(fault) if decoding is Decoding.LENIENT else ""
        if ignored:
            warnings.append(replace(fault, problem=f"{fault.problem}: {ignored}"))
        else:
            faults.append(fault)
    return faults, warnings


def _ignored(fault: Fault) -> str:
    """Return the remedy that lenient decoding prints for the fault; "" for a fault that it does not ignore."""
    if fault.problem == UNKNOWN_FIELD:
        return "it is ignored"
    return "the last value holds" if is_duplicate_key(fault) else ""
