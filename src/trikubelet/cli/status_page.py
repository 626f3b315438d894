"""What ``trikubelet top`` shows on a whole screen: a node, its agent and its pods, as much as a window has room for.

    Page ─► head: the node, the agent's figures, what is wrong ────────────────────────────┐
      └───► a row for each pod, those with a problem first, then the busy ones                 ├─► Sheet
              └─► columns that fit the width ─► as many rows as fit the height, from one on ┘

Pure: ``screen`` gathers the page, hears the keys and draws the lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trikubelet.cli.tables import Table
from trikubelet.cli.terminal import in_a_cell
from trikubelet.cli.usage_rows import NODE_COLUMNS, node_row, pod_rows
from trikubelet.core.kubectl.pod_row import pod_row
from trikubelet.core.kubectl.words import UNKNOWN
from trikubelet.core.timestamps import SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trikubelet.core.kubectl.pod_row import PodRow
    from trikubelet.model.k8s import Node, Pod
    from trikubelet.model.summary import Summary

LISTED: Final = "kubelet_pleg_last_seen_seconds"
FIGURES: Final = {
    LISTED: "relist {:.1f} s ago",
    "trikubelet_pleg_inspections_waiting": "{:.0f} inspections waiting",
    "trikubelet_status_waiting": "{:.0f} statuses waiting",
    "trikubelet_events_waiting": "{:.0f} events waiting",
}
"""Of the agent's metrics those that say whether it keeps up; what a node does not have is left out."""
COLUMNS: Final = ("NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "CPU(cores)", "MEMORY(bytes)", "AGE")
NARROW_COLUMNS: Final = ("NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "CPU", "MEMORY", "AGE")
NAME, RESTARTS = COLUMNS.index("NAME"), COLUMNS.index("RESTARTS")
DISPENSABLE: Final = ("AGE", "NAMESPACE", "READY", "RESTARTS")
"""Columns that a narrow window does without, the first of them first."""
_LAYOUTS: Final = [
    [at for at, column in enumerate(NARROW_COLUMNS) if column not in DISPENSABLE[:gone]]
    for gone in range(len(DISPENSABLE) + 1)
]
NAME_LETTERS_MIN: Final = 16
"""A name is not shortened below this as long as a column can go instead."""
SILENT_SECONDS: Final = 5.0
"""A page that is older than this is not taken for how the node is now: an ordinary one is followed after two."""


@dataclass(frozen=True, slots=True)
class Page:
    """Everything there is to show, as it was at ``now_ns``."""

    node: Node
    problems: Sequence[str]
    pods: Sequence[Pod]
    used: Summary
    metrics: Mapping[str, float]
    now_ns: int


@dataclass(frozen=True, slots=True)
class Sheet:
    """The lines of a window, top to bottom; ``first`` is the number of the first pod in it, from 0, and ``room`` how
    many fit."""

    lines: Sequence[str]
    first: int
    room: int


def sheet_of(page: Page, warning: str, first: int, height: int, width: int) -> Sheet:
    """What a window of this size shows of the page from the ``first`` pod on, or from the nearest to it there is;
    ``warning``: what is wrong with the page itself, empty for nothing."""
    wrong = [*([warning] if warning else []), *page.problems]
    head = [
        *Table(NODE_COLUMNS).lines([node_row(page.used, page.node)]),
        " · ".join([f"{len(page.pods)} pods", "q ends", *_figures(page)]),
        *(in_a_cell(f"! {one}") for one in wrong),
        "",
    ]
    heading, *rows = _fitting(_rows(page), width) or ["no pods"]
    room = height - len(head) - 1
    if len(rows) > room:  # the last line says so
        room -= 1
    room = max(1, room)
    first = max(0, min(first, len(rows) - room))
    lines = [*head, heading, *rows[first : first + room]]
    if len(rows) > room:
        below = len(rows) - room - first
        lines.append(f"… {first} more above, {below} more below (arrows, PageUp, PageDown)")
    return Sheet([line[:width] for line in lines[:height]], first, room)


def warning_of(seconds: float, problem: str) -> str:
    """What is wrong with a page of ``seconds`` ago, if anything is; ``problem``: why there is no newer one, empty where
    nobody knows."""
    if problem:
        return f"this is {seconds:.0f} s old: {problem}"
    return f"this is {seconds:.0f} s old: the agent is silent" if seconds > SILENT_SECONDS else ""


def _figures(page: Page) -> list[str]:
    metrics = dict(page.metrics)
    if LISTED in metrics:  # it is a moment, and an age says more
        metrics[LISTED] = max(0.0, page.now_ns / SECOND_NS - metrics[LISTED])
    return [said.format(metrics[name]) for name, said in FIGURES.items() if name in metrics]


def _rows(page: Page) -> list[tuple[str, ...]]:
    """The cells below ``COLUMNS``: pods with a problem first, then by what they use of processors, then as a table has
    them."""
    shown = {row[:2]: row[2:] for row in pod_rows(page.used.pods)}
    busy = {(one.pod_ref.namespace, one.pod_ref.name): one.cpu.usage_nano_cores for one in page.used.pods if one.cpu}
    rows = [pod_row(pod, page.now_ns) for pod in page.pods]
    rows.sort(key=lambda row: (not _is_failing(row), -(busy.get((row.namespace, row.name)) or 0)))
    found = []
    for row in rows:
        used = shown.get((row.namespace, row.name), (UNKNOWN, UNKNOWN))
        found.append((row.namespace, row.name, row.ready, row.status, row.restarts, *used, row.age))
    return found


def _is_failing(row: PodRow) -> bool:
    """Whether the pod is not as it is meant to be, or not yet."""
    ready, _, total = row.ready.partition("/")
    return row.status != "Completed" and (row.status != "Running" or ready != total)


def _fitting(rows: Sequence[tuple[str, ...]], width: int) -> list[str]:
    """The rows below their headings, made narrower as far as ``width`` asks for: first the blanks between the columns
    and when it was restarted last, then the middle of long names, then whole columns."""
    lines = Table(COLUMNS).lines(rows)
    if _longest(lines) <= width:
        return lines
    rows = [(*row[:RESTARTS], row[RESTARTS].partition(" ")[0], *row[RESTARTS + 1 :]) for row in rows]
    rows = [tuple("?" if cell == UNKNOWN else cell for cell in row) for row in rows]
    names = _longest([row[NAME] for row in rows])
    for kept in _LAYOUTS:
        room = names - max(0, _longest(_narrow(rows, kept, names)) - width)
        if room >= min(names, NAME_LETTERS_MIN):
            return _narrow(rows, kept, room)
    return _narrow(rows, _LAYOUTS[-1], NAME_LETTERS_MIN)


def _narrow(rows: Sequence[tuple[str, ...]], kept: Sequence[int], room: int) -> list[str]:
    cells = [(*row[:NAME], _shortened(row[NAME], room), *row[NAME + 1 :]) for row in rows]
    return Table([NARROW_COLUMNS[at] for at in kept], gap=1).lines([row[at] for at in kept] for row in cells)


def _shortened(name: str, room: int) -> str:
    """Without its middle: names of pods that belong together differ at the end."""
    front = room // 2
    return name if len(name) <= room else f"{name[:front]}…{name[front + 1 - room :]}"


def _longest(lines: Sequence[str]) -> int:
    return max(map(len, lines), default=0)
