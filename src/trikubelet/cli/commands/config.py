"""``trikubelet config view``: the effective configuration, and where each value was set.

It comes from the running agent; with an agent's flags after ``--``, it is that of an agent that would be started with
them.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from trikubelet.cli import asking, blocking
from trikubelet.cli.objects import as_yaml
from trikubelet.cli.options import refuse_socket_beside_flags, split_flags
from trikubelet.cli.tables import Table
from trikubelet.cli.words.config import parser
from trikubelet.core.field_path import path_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trikubelet.core.field_path import Place
    from trikubelet.server.agent_view import ConfigNote

DEFAULT = "default"


def run(argv: Sequence[str]) -> int:
    """Run ``config`` and return the exit code. Raises CommandFailed."""
    arguments, flags = split_flags(argv)
    args = parser().parse_args(arguments)
    refuse_socket_beside_flags(args, flags)
    note = blocking.run(_asked, args) if flags is None else _computed(flags, args.root_dir)
    if args.output is not None:
        _print_file(note, args)
        return 0
    rows = [row for row in _rows(note) if not args.given or row[2] != DEFAULT]
    for line in Table(("WHAT", "VALUE", "GIVEN BY")).lines(rows):
        print(line)
    return 0


async def _asked(args: argparse.Namespace) -> ConfigNote:
    return await asking.configuration(asking.agent_of(args))


def _computed(flags: Sequence[str], root_dir: str | None) -> ConfigNote:
    """Return the settings that would hold. Prints the warnings that the agent would log at start, on standard error.
    Raises CommandFailed with every fault of flags and files."""
    from trikubelet.app.agent_view import config_note  # noqa: PLC0415 - clients do not need the agent's modules

    settings = asking.settings_of(flags, root_dir)
    for warning in settings.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return config_note(settings)


def _print_file(note: ConfigNote, args: argparse.Namespace) -> None:
    fields = note.configuration
    if args.given:
        given = {place.partition(".")[0].partition("[")[0] for place in note.provenance}
        fields = {name: value for name, value in fields.items() if name in given | {"apiVersion", "kind"}}
    if args.output == "json":
        print(json.dumps(fields, indent=4, sort_keys=True, ensure_ascii=False))
    else:
        print(as_yaml(fields), end="")


def _rows(note: ConfigNote) -> Iterator[tuple[str, str, str]]:
    """Yield each place, flag and field with its value, and where that was set."""
    for what, value in {**note.places, "static pods": note.manifests or "none", **note.flags}.items():
        yield what, value, note.provenance.get(what, DEFAULT)
    for place, value in sorted(_leaves(note.configuration)):
        yield path_of(place), value if isinstance(value, str) else json.dumps(value), _giver(place, note.provenance)


def _leaves(fields: Mapping[str, Any], above: Place = ()) -> Iterator[tuple[Place, Any]]:
    for name, value in fields.items():
        place = (*above, name)
        if isinstance(value, dict) and value:
            yield from _leaves(value, place)
        else:
            yield place, value


def _giver(place: Place, provenance: Mapping[str, str]) -> str:
    """Return where a field, or one that contains it, was set."""
    for length in range(len(place), 0, -1):
        if giver := provenance.get(path_of(place[:length])):
            return giver
    return DEFAULT
