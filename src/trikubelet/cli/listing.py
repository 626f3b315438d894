"""The output of ``get``: tables with the columns of their kinds or of the user's own, or objects.

    objects of one kind      ─► a table                          pod names as they are
    objects of several kinds ─► a table each, a line between     NAME is KIND/NAME, so that it can be typed again
    -o custom-columns        ─► one table of all
    -o json, yaml, name, …   ─► one object, or a List            (cli.objects)

A watch prints changes in the tables that were begun, and objects one by one.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec

from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.narrow import table_for_terminal
from trikubelet.cli.objects import CUSTOM, WIDE, Output, as_list, show
from trikubelet.cli.tables import Table
from trikubelet.core.kubectl.label_columns import LabelColumns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trikubelet.cli.kinds import Kind, Listed
    from trikubelet.cli.narrow import NarrowTable
    from trikubelet.core.jsonpath import Path

    Found = Sequence[tuple[Kind, Sequence[Listed]]]
    """The found objects, by kind."""


class Style(msgspec.Struct, frozen=True):
    """The format of the output. ``with_namespaces``: tables have a column of namespaces; ``with_kinds``: names have
    their kind before them; ``sort_by``: a path as written, and parsed."""

    output: Output
    labels: LabelColumns = msgspec.field(default_factory=LabelColumns)
    with_namespaces: bool = False
    with_kinds: bool = False
    with_headings: bool = True
    sort_by: tuple[str, Path] | None = None


class Listing:
    """Owns the tables that were begun: the widths of their columns, and whether their headings are printed."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._tables: dict[Kind, Table | NarrowTable] = {}
        headings = [column.heading for column in style.output.columns]
        self._custom = Table(headings, show_headings=style.with_headings)

    def print_all(self, found: Found, *, is_one: bool) -> None:
        """Print all found objects. ``is_one``: a single object, requested by its name and not printed as a list. Raises
        CommandFailed if a template or a path does not fit."""
        output = self._style.output
        if output.is_table:
            self._print_tables([(kind, self._sorted(things)) for kind, things in found if things])
            return
        kinds = {id(one): kind for kind, things in found for one in things}
        things = self._sorted([one for _, part in found for one in part])
        if output.form == CUSTOM:
            self._print_custom(things)
        else:
            wholes = [one.whole for one in things]
            names = [f"{kinds[id(one)].name}/{one.name}" for one in things]
            show(wholes[0] if is_one else as_list(wholes), names, output)

    def print_change(self, kind: Kind, one: Listed) -> None:
        """Print one object as it is now. Raises CommandFailed like ``print_all``."""
        output = self._style.output
        if output.is_table:
            self._print_rows(kind, [one])
        elif output.form == CUSTOM:
            self._print_custom([one])
        else:
            show(one.whole, [f"{kind.name}/{one.name}"], output)

    def _sorted(self, things: Sequence[Listed]) -> Sequence[Listed]:
        """Raises CommandFailed."""
        if self._style.sort_by is None:
            return things
        from trikubelet.core.kubectl.sorting import in_order_of  # noqa: PLC0415 - only --sort-by needs it

        said, path = self._style.sort_by
        try:
            return in_order_of(path, things, _plain)
        except ValueError as error:
            raise CommandFailed(f"--sort-by={said}: {error}") from error

    def _print_tables(self, found: Found) -> None:
        for number, (kind, things) in enumerate(found):
            if number:
                print()
            self._print_rows(kind, things)

    def _print_rows(self, kind: Kind, things: Iterable[Listed]) -> None:
        style = self._style
        if kind not in self._tables:
            headings = [*self._namespace(kind, "NAMESPACE"), *self._columns(kind), *style.labels.headings]
            # A user who requests more columns needs all of them, however narrow the terminal is.
            asks_for_more = style.output.form == WIDE or style.labels.with_all
            begin = Table if asks_for_more else table_for_terminal
            self._tables[kind] = begin(headings, show_headings=style.with_headings)
        _print(self._tables[kind], (self._row(kind, one) for one in things))

    def _row(self, kind: Kind, one: Listed) -> list[str]:
        cells = list(one.cells[: len(self._columns(kind))])
        if self._style.with_kinds and "NAME" in kind.columns and cells[at := kind.columns.index("NAME")] == one.name:
            cells[at] = f"{kind.name}/{one.name}"
        return [*self._namespace(kind, one.namespace), *cells, *self._style.labels.cells(one.labels)]

    def _columns(self, kind: Kind) -> tuple[str, ...]:
        return kind.columns + (kind.wide if self._style.output.form == WIDE else ())

    def _namespace(self, kind: Kind, cell: str) -> list[str]:
        return [cell] if self._style.with_namespaces and kind.namespaced else []

    def _print_custom(self, things: Iterable[Listed]) -> None:
        """Print the objects below the user's headings, which kubectl prints without objects, too."""
        from trikubelet.core.jsonpath import OutOfBounds  # noqa: PLC0415 - only custom columns need it
        from trikubelet.core.kubectl.custom_columns import custom_cells  # noqa: PLC0415

        columns = self._style.output.columns
        try:
            rows = [custom_cells(columns, _plain(one)) for one in things]
        except OutOfBounds as error:
            raise CommandFailed(f"{CUSTOM}: {error}") from error
        _print(self._custom, rows)


def _print(table: Table | NarrowTable, rows: Iterable[Sequence[str]]) -> None:
    for line in table.lines(rows):
        print(line)
    sys.stdout.flush()


def _plain(one: Listed) -> Any:
    return msgspec.to_builtins(one.whole)
