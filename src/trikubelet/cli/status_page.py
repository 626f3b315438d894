"""The page of ``trikubelet top`` about a node and its pods, as much as a window has room for.

    Page ─► the pods that match the filter, in the chosen order ─► columns that fit the width ┐
      └───► head: the node, a line about pods and keys, problems, figures if requested ───────┴─► Sheet

In a low window the pods come first: half of its lines are theirs, and one at least. Pure: ``screen`` gathers the page
and draws the lines, ``screen_state`` handles the keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from trikubelet.cli.narrow import NarrowTable
from trikubelet.cli.screen_state import Order, Sheet
from trikubelet.cli.terminal import in_a_cell
from trikubelet.cli.usage_rows import NODE_COLUMNS, node_row, pod_rows
from trikubelet.core.kubectl.pod_row import PodRow, pod_row
from trikubelet.core.kubectl.words import UNKNOWN
from trikubelet.core.timestamps import SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trikubelet.cli.screen_state import Name, State
    from trikubelet.model.k8s import Node, Pod
    from trikubelet.model.summary import Summary

LISTED: Final = "kubelet_pleg_last_seen_seconds"
FIGURES: Final = {
    LISTED: "containers listed {:.1f} s ago",
    "trikubelet_pleg_inspections_waiting": "{:.0f} pods to inspect",
    "trikubelet_status_waiting": "{:.0f} statuses to publish",
    "trikubelet_events_waiting": "{:.0f} events to publish",
}
"""Metrics that show whether the agent keeps up; those that a node does not have are left out."""
COLUMNS: Final = ("NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "CPU(cores)", "MEMORY(bytes)", "AGE")
DISPENSABLE: Final = ("AGE", "NAMESPACE", "READY", "RESTARTS")
"""Columns that a narrow window leaves out, the least needed first."""
UNKNOWN_AMOUNT: Final = "-"
SILENT_SECONDS: Final = 5.0
"""An older page is marked as stale, in seconds: it is usually refreshed after two."""


@dataclass(frozen=True, slots=True)
class Page:
    """All data of the page, as it was at ``now_ns``."""

    node: Node
    problems: Sequence[str]
    pods: Sequence[Pod]
    used: Summary
    metrics: Mapping[str, float]
    now_ns: int


@dataclass(frozen=True, slots=True)
class _Row:
    """One pod: its cells and its sort keys. ``cores`` and ``bytes`` are 0 where unknown."""

    shown: PodRow
    amounts: tuple[str, str]
    cores: int
    bytes: int
    created: str

    @property
    def name(self) -> Name:
        return self.shown.namespace, self.shown.name

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the cells below ``COLUMNS``."""
        row = self.shown
        return (row.namespace, row.name, row.ready, row.status, row.restarts, *self.amounts, row.age)

    @property
    def restarts(self) -> int:
        return int(self.shown.restarts.partition(" ")[0])

    @property
    def has_problem(self) -> bool:
        """True if the pod is not in its desired state, or not yet."""
        ready, _, total = self.shown.ready.partition("/")
        return self.shown.status != "Completed" and (self.shown.status != "Running" or ready != total)


_KEYS: Final[Mapping[Order, Any]] = {
    Order.PROBLEMS: lambda row: (not row.has_problem, -row.cores),
    Order.CPU: lambda row: -row.cores,
    Order.MEMORY: lambda row: -row.bytes,
    Order.NAME: lambda row: (row.shown.name, row.shown.namespace),
    Order.RESTARTS: lambda row: -row.restarts,
    Order.AGE: lambda row: row.created,
}
"""The sort keys. Equal pods keep the order of a table: by namespace and name."""


def sheet_of(page: Page, state: State, warning: str, height: int, width: int) -> Sheet:
    """Return the part of the page that a window of this size shows, with the selected pod in it; ``warning``: a problem
    of the page itself, empty for none."""
    every = _rows(page)
    rows = [row for row in every if _fits(row, state.filter)]
    rows.sort(key=_KEYS[state.order], reverse=state.order is Order.AGE)  # the youngest first
    names = [row.name for row in rows]
    table = NarrowTable(COLUMNS, width, dispensable=DISPENSABLE)
    heading, *lines = table.lines(row.cells for row in rows) or ["no pods" if not every else "no pod fits the filter"]
    head = _head(page, state, every, warning, height - 1 - min(len(lines), max(1, height // 2)), width)
    room = max(1, height - len(head) - 1)
    is_counted = len(lines) > room > 2  # in the last line, if that costs no more than a third of the pods
    room -= is_counted
    at = names.index(state.selected) if state.selected in names else 0
    last = max(0, len(lines) - room)
    first = max(0, min(max(at - room + 1, min(state.top, at)), last))
    shown = [*head, heading, *lines[first : first + room]]
    if is_counted:
        shown.append(f"… {first} more above, {len(lines) - room - first} more below")
    marked = len(head) + 1 + at - first if names else None
    return Sheet([line[:width] for line in shown[:height]], first, last, room, names, marked)


def _head(page: Page, state: State, rows: Sequence[_Row], warning: str, lines_max: int, width: int) -> list[str]:
    """Return the lines above the pods, the most needed of them if not all have room."""
    wrong = [in_a_cell(f"! {one}") for one in (*([warning] if warning else []), *page.problems)]
    node = NarrowTable(NODE_COLUMNS, width, dispensable=("MEMORY(%)", "CPU(%)")).lines(
        [[_amount(cell) for cell in node_row(page.used, page.node)]]
    )
    line, figures = [_line(state, rows)], [" · ".join(_figures(page))] if state.with_figures else []
    if len(node) + len(line) + len(figures) + len(wrong) < lines_max:
        return [*node, *line, *figures, *wrong, ""]
    return [*line, *figures, *wrong][: max(0, lines_max)]


def _line(state: State, rows: Sequence[_Row]) -> str:
    """Return the line with the number of pods, the filter and order, and the most important keys."""
    if state.is_typing:
        return f"/{state.filter}_"
    fitting = sum(_fits(row, state.filter) for row in rows)
    parts = [f"{fitting} of {len(rows)} pods" if state.filter else f"{len(rows)} pods"]
    parts.append("? help, q quit")
    if problems := sum(row.has_problem for row in rows):
        parts.append(f"{problems} with problems")
    parts += [f"by {state.order}"] if state.order is not Order.PROBLEMS else []
    parts += [f"filter: {state.filter}"] if state.filter else []
    return " · ".join(parts)


def _figures(page: Page) -> list[str]:
    metrics = dict(page.metrics)
    if LISTED in metrics:  # it is a time, and an age is more useful
        metrics[LISTED] = max(0.0, page.now_ns / SECOND_NS - metrics[LISTED])
    return [said.format(metrics[name]) for name, said in FIGURES.items() if name in metrics]


def _fits(row: _Row, text: str) -> bool:
    shown = f"{row.shown.namespace}/{row.shown.name} {row.shown.status}"
    return text.lower() in shown.lower()


def _rows(page: Page) -> list[_Row]:
    amounts = {row[:2]: (_amount(row[2]), _amount(row[3])) for row in pod_rows(page.used.pods)}
    cores = {(one.pod_ref.namespace, one.pod_ref.name): one.cpu.usage_nano_cores for one in page.used.pods if one.cpu}
    in_use = {
        (one.pod_ref.namespace, one.pod_ref.name): one.memory.working_set_bytes for one in page.used.pods if one.memory
    }
    found = []
    for pod in page.pods:
        row = pod_row(pod, page.now_ns)
        name = (row.namespace, row.name)
        unknown = (UNKNOWN_AMOUNT, UNKNOWN_AMOUNT)
        created = pod.metadata.creation_timestamp
        found.append(_Row(row, amounts.get(name, unknown), cores.get(name) or 0, in_use.get(name) or 0, created))
    return found


def _amount(cell: str) -> str:
    return UNKNOWN_AMOUNT if cell == UNKNOWN else cell


def warning_of(seconds: float, problem: str) -> str:
    """Return the problem of a page that is ``seconds`` old, if there is one; ``problem``: why there is no newer one,
    empty if unknown."""
    if problem:
        return f"this is {seconds:.0f} s old: {problem}"
    return f"this is {seconds:.0f} s old: the agent is silent" if seconds > SILENT_SECONDS else ""
