"""The base of the frozen records that the agent makes by the hundred when it starts.

A dataclass writes its methods as text and compiles them: about 0.7 ms for each class, a third of the agent's start. A
``msgspec.Struct`` is made in a fiftieth of that, and its objects are smaller and made faster.
``dataclasses.replace``, ``fields`` and ``asdict`` keep working, because type checkers check the arguments of
``dataclasses.replace`` and not those of ``msgspec.structs.replace``.

A record with fields that the comparison leaves out stays a dataclass, because a struct compares all of them.
"""

from __future__ import annotations

from dataclasses import fields, make_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform

import msgspec

if TYPE_CHECKING:
    from dataclasses import Field


@cache
def _fields_of(kind: type[msgspec.Struct]) -> dict[str, Field[Any]]:
    """The fields as ``dataclasses`` describes them: their names, without types and defaults."""
    described = make_dataclass(
        kind.__name__,
        kind.__struct_fields__,
        namespace={"__doc__": kind.__doc__ or kind.__name__},  # without one, it would be made from a signature
        init=False,
        repr=False,
        eq=False,
        match_args=False,
    )
    return {field.name: field for field in fields(described)}


class _DescribedWhenAsked:
    """The attribute ``__dataclass_fields__`` of every record, made when it is first read: most are never replaced."""

    def __get__(self, record: object, kind: type[msgspec.Struct]) -> dict[str, Field[Any]]:
        return _fields_of(kind)


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Frozen(msgspec.Struct, frozen=True):
    """A frozen record: equal to a record of the same class with equal fields, and hashable if its fields are."""

    __dataclass_fields__ = _DescribedWhenAsked()


class Discreet(Frozen):
    """A frozen record whose ``repr`` leaves out the fields named in ``hidden``, such as keys and passwords."""

    hidden: ClassVar[tuple[str, ...]]

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name not in self.hidden)
        return f"{type(self).__name__}({', '.join(shown)})"
