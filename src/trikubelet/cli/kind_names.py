"""The names of the kinds that ``get`` and ``describe`` show (``cli.kinds``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

KIND_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "pod": ("pods", "pod", "po"),
    "node": ("nodes", "node", "no"),
    "event": ("events", "event", "ev"),
    "image": ("images", "image"),
    "volume": ("volumes", "volume"),
    "configmap": ("configmaps", "configmap", "cm"),
    "secret": ("secrets", "secret"),
}
"""All names of each kind, by the one that ``-o name`` prints; the plural first."""
POD_KIND_NAMES: Final = KIND_NAMES["pod"]
NODE_KIND_NAMES: Final = KIND_NAMES["node"]


ALL: Final = "all"
"""kubectl's name for a set of kinds, of which a node has only pods."""


class _Names(tuple[str, ...]):
    """The names of kinds for completion. ``cli.things.read_things`` rejects others, and knows every name."""

    __slots__ = ()

    def __contains__(self, _: object) -> bool:
        return True


def add_things_arguments(parser: argparse.ArgumentParser, help_: str, about_names: str) -> None:
    """Add the arguments for kinds and names."""
    plurals = [names[0] for names in KIND_NAMES.values()]
    parser.add_argument("kind", choices=_Names(plurals), metavar="KIND", help=help_)
    # The default keeps argparse from requiring a name.
    parser.add_argument("names", nargs="*", default=[], metavar="NAME", help=about_names)
