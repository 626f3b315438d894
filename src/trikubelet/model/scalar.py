"""How a type says that one of its scalars is written in a form of its own.

A struct that holds seconds but is written ``1m30s`` declares ``Annotated[float, Scalar(parse_duration, "a duration such
as 1m30s")]``; ``core.structure`` then reads the written form, keeps what ``parse`` returns and faults what it refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

_INT32: Final = 2**31


class Scalar(msgspec.Struct, frozen=True):
    """The written form of a scalar.

    ``parse`` turns what was written into the value kept and raises ValueError, with a sentence for the operator, for
    what it refuses. ``what`` names the form in faults (``a duration such as 1m30s``). ``accepts`` are the types it may
    be written as, of str, int, float and bool.
    """

    parse: Callable[[Any], object]
    what: str
    accepts: tuple[type, ...] = (str,)


def _int32(value: int) -> int:
    if not -_INT32 <= value < _INT32:
        raise ValueError("must fit into 32 bits")
    return value


Int32 = Annotated[int, Scalar(_int32, "a whole number", (int,))]
"""A number the API keeps in 32 bits. Numbers of an API server fit; those that a person writes are checked."""
