"""What several subjects need: which of several alternatives were chosen, and amounts that can be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trikubelet.core.manifest.problem import forbidden, invalid, required
from trikubelet.model import quantity
from trikubelet.model.api_names import attributes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from trikubelet.core.manifest.problem import Problems
    from trikubelet.model.k8s import Quantity

FILE_MODE_MAX = 0o777
INT32_MAX = 2**31 - 1


def chosen(record: msgspec.Struct, among: tuple[str, ...] = (), without: tuple[str, ...] = ()) -> list[str]:
    """The fields of a record that are set, by their names in the API: all but ``without``, or only those of ``among``,
    in its order, which is the API server's: it takes the first of several and blames the others."""
    found = [
        name
        for name, attribute in attributes(type(record)).items()
        if getattr(record, attribute) is not None and name not in without
    ]
    return [name for name in among if name in found] if among else found


def exactly_one(path: str, found: list[str], what: str) -> Problems:
    """Of several alternatives one must be chosen. ``what`` is the article and noun of one: ``a handler type``."""
    if not found:
        yield required(path, f"must specify {what}")
    yield from at_most_one(path, found)


def at_most_one(path: str, found: list[str]) -> Problems:
    """Of several alternatives no two may be chosen."""
    for extra in found[1:]:
        yield forbidden(f"{path}.{extra}", f"may not specify more than one: {found[0]} is given already")


def amount(value: Quantity) -> Fraction | None:
    """The exact amount, or None for what is no quantity; ``amount_problems`` says so."""
    try:
        return quantity.parse(value)
    except ValueError:
        return None


def amount_problems(path: str, value: Quantity) -> Problems:
    """A quantity of 0 or more."""
    try:
        if quantity.parse(value) < 0:
            yield invalid(path, value, "must be 0 or more")
    except ValueError:
        detail = "must be a quantity: a number with a suffix, such as 500m, 1Gi or 2e3"
        yield invalid(path, value, detail, quantity.meant_by(value))


def amounts(values: Mapping[str, Quantity]) -> dict[str, Fraction]:
    """The readable amounts of a map of resources."""
    read = {name: amount(value) for name, value in values.items()}
    return {name: value for name, value in read.items() if value is not None}


def mode_problems(path: str, mode: int | None) -> Problems:
    """The permission bits of a file."""
    if mode is not None and not 0 <= mode <= FILE_MODE_MAX:
        yield invalid(path, mode, "must be permission bits, from 0 to 0777 (octal; 0 to 511 in decimal, as in JSON)")
