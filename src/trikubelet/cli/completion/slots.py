"""The possible words at each place of a command line, by the placeholders that the parsers use."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.cli.verbs import Option


class Source(Enum):
    """The source of the possible words at a place."""

    WORDS = "known words, or none"
    FILES = "files"
    PODS = "names of pods"
    NAMES = "names of things of the kind that stands first"
    CONTAINERS = "containers of the pod that stands first"
    COPIED = "names of pods with a colon, and files"


class Slot(NamedTuple):
    """The possible words at one place; ``words`` of the source WORDS, also in addition to names."""

    source: Source
    words: tuple[str, ...] = ()


_SOURCES: Final = {
    **dict.fromkeys(("FILE", "DIR", "PATH", "COMMAND"), Source.FILES),
    "POD": Source.PODS,
    "NAME": Source.NAMES,
    "CONTAINER": Source.CONTAINERS,
    "[[NAMESPACE/]POD:]PATH": Source.COPIED,
}
_POD_NAMES: Final = "pod NAME"
"""The argument of ``delete``: a kind, then names of that kind."""


def slots(found: Sequence[Option]) -> tuple[list[Slot], bool]:
    """Return the possible words at each place of a verb's arguments, and whether the last may be repeated."""
    arguments = [option for option in found if not option.names]
    places: list[Slot] = []
    for option in arguments:
        if option.value == _POD_NAMES:
            places += [Slot(Source.PODS, ("pod",)), Slot(Source.PODS)]
        else:
            places.append(slot(option))
    return places, bool(arguments) and arguments[-1].repeats


def slot(option: Option) -> Slot:
    """Return the possible words for an argument, or for the value of a flag."""
    if option.choices or ("|" in option.value and "," not in option.value):
        return Slot(Source.WORDS, tuple(option.choices or map(_begun, option.value.split("|"))))
    source = _SOURCES.get(option.value, Source.WORDS)
    if option.names and source is Source.NAMES:  # of a namespace, a host; or of a container, where there is a pod
        return Slot(Source.CONTAINERS if "--container" in option.names else Source.WORDS)
    return Slot(source)


def _begun(value: str) -> str:
    """Return the fixed beginning of a value: ``jsonpath=`` of ``jsonpath=TEMPLATE``."""
    return value[: value.index("=") + 1] if "=" in value else value


def flags(found: Sequence[Option]) -> list[str]:
    """Return the names of the flags."""
    return [name for option in found for name in option.names]


def takes_word(option: Option) -> bool:
    """True if the word after the flag is its value."""
    return bool(option.names and option.value and not option.alone)


def with_value(found: Sequence[Option]) -> list[str]:
    """Return the names of the flags that take the word after them."""
    return [name for option in found if takes_word(option) for name in option.names]
