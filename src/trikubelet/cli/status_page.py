"""What ``trikubelet top`` shows on a whole screen: a node, its agent and its pods, as much as a window has room for.

    Page ─► head: the node, the agent's figures, what is wrong ────────────────────────────┐
      └───► a row for each pod, those with a problem first, then the busy ones                 ├─► Sheet
              └─► columns that fit the width ─► as many rows as fit the height, from one on ┘

Pure: ``screen`` gathers the page, hears the keys and draws the lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trikubelet.cli.narrow import NarrowTable
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
DISPENSABLE: Final = ("AGE", "NAMESPACE", "READY", "RESTARTS")
"""Columns that a narrow window does without, the first of them first."""
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
    table = NarrowTable(COLUMNS, width, dispensable=DISPENSABLE)
    heading, *rows = table.lines(_rows(page)) or ["no pods"]
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
