"""``trikubelet top pods|node``: the CPU and memory in use; without a kind, a live view on the whole screen."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from trikubelet.cli import asking, blocking, interruptible
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.kind_names import NODE_KIND_NAMES, POD_KIND_NAMES
from trikubelet.cli.narrow import table_for_terminal
from trikubelet.cli.usage_rows import (
    CONTAINER_COLUMNS,
    NODE_COLUMNS,
    POD_COLUMNS,
    container_rows,
    is_known,
    node_row,
    pod_rows,
)
from trikubelet.cli.words.top import parser

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.model.summary import Summary

OF_TABLES: Final = ("containers", "sort_by", "all_namespaces", "no_headers", "namespace")
"""Options for a table only."""
RATE_SECONDS: Final = 2.0
"""Seconds between two measurements: CPU use is a difference, and after a start there was only one."""


def run(argv: Sequence[str]) -> int:
    """Run ``top`` and return the exit code. Raises CommandFailed."""
    args = parser().parse_intermixed_args(argv)
    if args.kind is None:
        if given := [name for name in OF_TABLES if getattr(args, name) != parser().get_default(name)]:
            parser().error(f"--{given[0].replace('_', '-')} is for a table: write `trikubelet top pods`")
        from trikubelet.cli.screen import show  # noqa: PLC0415 - a table needs no curses

        interruptible.run(show, asking.agent_of(args))
        return 0
    if args.kind not in (*POD_KIND_NAMES, *NODE_KIND_NAMES):
        parser().error(f"{args.kind!r} is neither pods nor node")
    blocking.run(_top, args)
    return 0


async def _top(args: argparse.Namespace) -> None:
    agent = asking.agent_of(args)
    summary = await asking.used(agent)
    if not is_known(summary):
        await blocking.pause(RATE_SECONDS)
        summary = await asking.used(agent)
    if args.kind in NODE_KIND_NAMES:
        (node,) = await asking.nodes(agent)
        if others := [name for name in args.names if name != node.metadata.name]:
            raise CommandFailed(f'nodes "{others[0]}" not found: this is {node.metadata.name}')
        _print(args, NODE_COLUMNS, [node_row(summary, node)])
        return
    names = [asking.bare_name(word) for word in args.names]
    here = [pod for pod in summary.pods if args.all_namespaces or pod.pod_ref.namespace == args.namespace]
    for name in names:
        if all(pod.pod_ref.name != name for pod in here):
            raise CommandFailed(f'pods "{name}" not found, or it has no running containers')
    chosen = [pod for pod in here if not names or pod.pod_ref.name in names]
    chosen.sort(key=lambda pod: (pod.pod_ref.namespace, pod.pod_ref.name))
    if args.sort_by == "cpu":
        chosen.sort(key=lambda pod: -((pod.cpu and pod.cpu.usage_nano_cores) or 0))
    elif args.sort_by == "memory":
        chosen.sort(key=lambda pod: -((pod.memory and pod.memory.working_set_bytes) or 0))
    columns = CONTAINER_COLUMNS if args.containers else POD_COLUMNS
    first = 0 if args.all_namespaces else 1
    rows = container_rows(chosen) if args.containers else pod_rows(chosen)
    if not chosen:
        print(_nothing(args, summary), file=sys.stderr)
    _print(args, columns[first:], [row[first:] for row in rows])


def _nothing(args: argparse.Namespace, summary: Summary) -> str:
    if args.all_namespaces:
        return asking.nothing_found()
    return asking.nothing_found(args.namespace, asking.counted(len(summary.pods), "pod"))


def _print(args: argparse.Namespace, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    for line in table_for_terminal(columns, show_headings=not args.no_headers).lines(rows):
        print(line)
