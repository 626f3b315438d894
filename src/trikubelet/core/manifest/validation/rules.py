"""Rules that several subjects share: choices between alternatives, and valid amounts."""

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
    """Return the fields of a record that are set, by their names in the API: all but ``without``, or only those of
    ``among``, in the order of the API server, which accepts the first and rejects the others."""
    found = [
        name
        for name, attribute in attributes(type(record)).items()
        if getattr(record, attribute) is not None and name not in without
    ]
    return [name for name in among if name in found] if among else found


def exactly_one(path: str, found: list[str], what: str) -> Problems:
    """Yield a problem unless exactly one alternative is chosen. ``what``: article and noun, like ``a handler type``."""
    if not found:
        yield required(path, f"must specify {what}")
    yield from at_most_one(path, found)


def at_most_one(path: str, found: list[str]) -> Problems:
    """Yield a problem for each alternative after the first."""
    for extra in found[1:]:
        yield forbidden(f"{path}.{extra}", f"may not specify more than one: {found[0]} is given already")


def amount(value: Quantity) -> Fraction | None:
    """Return the exact amount; None for an invalid quantity, which ``amount_problems`` reports."""
    try:
        return quantity.parse(value)
    except ValueError:
        return None


def amount_problems(path: str, value: Quantity) -> Problems:
    """Yield a problem unless it is a quantity of 0 or more."""
    try:
        if quantity.parse(value) < 0:
            yield invalid(path, value, "must be 0 or more")
    except ValueError:
        detail = "must be a quantity: a number with a suffix, such as 500m, 1Gi or 2e3"
        yield invalid(path, value, detail, quantity.meant_by(value))


def amounts(values: Mapping[str, Quantity]) -> dict[str, Fraction]:
    """Return the valid amounts of a map of resources."""
    read = {name: amount(value) for name, value in values.items()}
    return {name: value for name, value in read.items() if value is not None}


def id_problems(path: str, number: int | None) -> Problems:
    """Yield a problem unless this is the id of a user or group."""
    if number is not None and not 0 <= number <= INT32_MAX:
        yield invalid(path, number, f"must be between 0 and {INT32_MAX}")


def mode_problems(path: str, mode: int | None) -> Problems:
    """Yield a problem unless these are the permission bits of a file."""
    if mode is not None and not 0 <= mode <= FILE_MODE_MAX:
        yield invalid(path, mode, "must be permission bits, from 0 to 0777 (octal; 0 to 511 in decimal, as in JSON)")
