"""The objects selected by a command line: the kinds and names of ``get`` and ``describe``, and the selectors.

    pods web api          pods,nodes          pod/web node/n1          pods -l app=web          events --for pod/web
      └─ one kind, names    └─ several kinds    └─ objects of any kind   └─ by labels, fields     └─ about an object

Each kind becomes a ``Wanted``, which decides whether a listed object is selected. The rules are kubectl's, and in
addition: a volume is found by its own name if only one pod has such a volume, and an event or a volume by the name of
its pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from trikubelet.cli import asking
from trikubelet.cli.failed import CommandFailed, Misunderstood
from trikubelet.cli.kind_names import ALL
from trikubelet.cli.kinds import EVENTS, KINDS, PODS, kind_of
from trikubelet.core.kubectl.fields import holds
from trikubelet.model.faults import nearest

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from trikubelet.cli.kinds import Kind, Listed
    from trikubelet.core.selectors import FieldTerm, Selector


class Wanted(msgspec.Struct, frozen=True):
    """The selection of one kind. Without ``names`` it is everything that fits; an empty ``namespace`` is any, and an
    empty ``about`` any object, else ``KIND/NAME``."""

    kind: Kind
    names: tuple[str, ...] = ()
    namespace: str = ""
    labels: Selector | None = None
    fields: tuple[FieldTerm, ...] = ()
    about: str = ""

    def fits(self, one: Listed) -> bool:
        """True if the object is selected, whatever its name is."""
        return (
            (not self.namespace or not self.kind.namespaced or one.namespace == self.namespace)
            and (self.labels is None or bool(self.labels(one.labels or {})))
            and (not self.about or one.about == self.about)
            and holds(self.fields, self.kind.fields, one.whole)
        )

    def has(self, one: Listed) -> bool:
        """True if the object is selected, by its name too."""
        return self.fits(one) and (not self.names or any(_is_called(one, name) for name in self.names))

    def named(self, name: str, things: Sequence[Listed]) -> list[Listed]:
        """Return the objects of that name: those that have it themselves, else the one that has it as another name,
        else those about the object of that name. Raises CommandFailed for another name that several have."""
        if found := [one for one in things if one.name == name]:
            return found
        found = [one for one in things if name in one.aliases]
        if len({id(one.whole) for one in found}) > 1:
            several = ", ".join(one.name for one in found)
            raise CommandFailed(f'{self.kind.names[0]} "{name}": there are several: write one of {several}')
        return found or [one for one in things if _is_about(one, name)]

    def missing(self, name: str, everything: Sequence[Listed]) -> CommandFailed:
        """Return the error about a name that no object has, with the nearest existing one."""
        if self.kind is PODS:
            return asking.not_found(name, self.namespace, [one.whole for one in everything])
        hint = nearest(name, [known for one in everything for known in (one.name, *one.aliases)])
        return CommandFailed(f'{self.kind.names[0]} "{name}" not found{f" ({hint})" if hint else ""}')


def _is_called(one: Listed, name: str) -> bool:
    return name == one.name or name in one.aliases or _is_about(one, name)


def _is_about(one: Listed, name: str) -> bool:
    return bool(one.about) and one.about.partition("/")[2] == name


def read_things(args: argparse.Namespace) -> tuple[Wanted, ...]:
    """Return the selection in the arguments, in their order. Raises Misunderstood."""
    word, slash, _ = args.kind.partition("/")
    if slash:
        named = _by_kind(_kind(word), [args.kind, *args.names])
    else:
        kinds = [PODS if one == ALL else _kind(one) for one in word.split(",")]
        named = {kind: [_bare(kinds, one) for one in args.names] for kind in dict.fromkeys(kinds)}
    selects = args.selector is not None or any(getattr(args, option, "") for option in ("field_selector", "about"))
    if selects and any(named.values()):
        raise Misunderstood("name cannot be provided when a selector is specified")
    namespace = "" if args.all_namespaces else args.namespace
    return tuple(
        Wanted(kind, tuple(names), namespace, args.selector, _fields(args, kind), _about(args, kind))
        for kind, names in named.items()
    )


def _kind(word: str) -> Kind:
    """Raises Misunderstood."""
    if (kind := kind_of(word)) is None:
        known = [name for kind in KINDS for name in kind.names]
        remedy = nearest(word, known) or f"there are {', '.join(kind.names[0] for kind in KINDS)}"
        raise Misunderstood(f'"{word}" is not a kind of object ({remedy})')
    return kind


def _by_kind(first: Kind, words: Sequence[str]) -> dict[Kind, list[str]]:
    """Return the names by the kinds before their slashes; a name without one is of the first kind."""
    named: dict[Kind, list[str]] = {}
    for word in words:
        before, slash, name = word.partition("/")
        kind = kind_of(before) if slash else None
        named.setdefault(kind or first, []).append(name if kind is not None else word)
    return named


def _bare(kinds: Sequence[Kind], word: str) -> str:
    """Return the name in ``NAME`` or ``KIND/NAME``, if that is one of the kinds. A volume has a slash in its name."""
    before, slash, name = word.partition("/")
    return name if slash and kind_of(before) in kinds else word


def _fields(args: argparse.Namespace, kind: Kind) -> tuple[FieldTerm, ...]:
    """Raises Misunderstood for a field that objects of this kind cannot be selected by."""
    if not (said := getattr(args, "field_selector", "")):
        return ()
    from trikubelet.core.selectors import parse_field_selector  # noqa: PLC0415 - only this selector needs it

    try:
        return parse_field_selector(said, kind.fields)
    except ValueError as wrong:
        has = f"{kind.names[0]} have {', '.join(kind.fields)}" if kind.fields else f"{kind.names[0]} have none"
        raise Misunderstood(f"--field-selector: {wrong} ({has})") from None


def _about(args: argparse.Namespace, kind: Kind) -> str:
    """Raises Misunderstood."""
    said: Any = getattr(args, "about", "")
    if not said:
        return ""
    if kind is not EVENTS:
        raise Misunderstood(f"--for selects events: {kind.names[0]} are not about other objects")
    before, slash, name = said.partition("/")
    if not (slash and before and name):
        raise Misunderstood("--for must be in resource/name form: --for=pod/NAME")
    of = kind_of(before)
    return f"{of.name if of is not None else before.lower()}/{name}"
