"""``trikubelet get pods [NAME…]`` and ``get events``: tables as kubectl prints them, or the objects themselves.

Faulty manifests are part of the answer: a person who looks for the pod they just wrote down must learn here why it is
not there. They go to standard error, so that whatever reads the table is not disturbed.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

import msgspec
import trio

from trikubelet.app.client import Agent
from trikubelet.app.commands import asking
from trikubelet.app.commands.ages import since
from trikubelet.app.commands.objects import TABLE, WIDE, as_list, show
from trikubelet.app.commands.pod_row import pod_row
from trikubelet.app.commands.printable import in_a_cell
from trikubelet.app.commands.tables import PodTable, Table
from trikubelet.model.k8s import Pod

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

EVENT_COLUMNS = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")


class Change(msgspec.Struct, frozen=True):
    """A line of a watch."""

    type: str
    object: Pod


def parser() -> argparse.ArgumentParser:
    """The words of ``get``."""
    made = argparse.ArgumentParser(prog="trikubelet get", description="Show what this node runs.")
    made.add_argument("kind", choices=(*asking.POD_WORDS, *asking.EVENT_WORDS), metavar="pods|events")
    made.add_argument("names", nargs="*", metavar="NAME", help="only these pods")
    made.add_argument("-o", "--output", choices=("wide", "json", "yaml", "name"), default=TABLE, help="another form")
    made.add_argument("-w", "--watch", action="store_true", help="go on and show every change")
    made.add_argument("-A", "--all-namespaces", action="store_true", help="of every namespace")
    made.add_argument("--no-headers", action="store_true", help="without the headings")
    asking.add_namespace_option(made)
    asking.add_agent_options(made)
    return made


def run(argv: Sequence[str]) -> int:
    """Carry out ``get``; the exit code. Raises CommandFailed."""
    args = parser().parse_args(argv)
    args.names = [asking.bare_name(word) for word in args.names]
    if args.kind in asking.EVENT_WORDS:
        if args.watch or args.names:
            parser().error("events are shown all at once: neither NAME nor --watch goes with them")
        trio.run(_events, args)
    else:
        trio.run(_pods, args)
    return 0


async def _pods(args: argparse.Namespace) -> None:
    agent = Agent(asking.socket_path(args))
    everything = await asking.pods(agent)
    shown = _chosen(args, everything)
    if args.output in (TABLE, WIDE):
        table = PodTable(wide=args.output == WIDE, namespaces=args.all_namespaces, headings=not args.no_headers)
        _print_rows(table, shown)
        if not shown and not args.watch:
            print(_nothing(args, everything), file=sys.stderr)
    else:
        table = None
        show(as_list(shown) if len(args.names) != 1 or len(shown) != 1 else shown[0], shown, args.output)
    if table is not None:
        await _print_troubles(agent)
    if args.watch:
        await _watch(agent, args, {pod.metadata.uid: pod for pod in everything}, table)


def _chosen(args: argparse.Namespace, everything: Iterable[Pod]) -> list[Pod]:
    """The pods that were asked for. Raises CommandFailed for a name that is not there."""
    chosen = [pod for pod in everything if args.all_namespaces or pod.metadata.namespace == args.namespace]
    if not args.names:
        return chosen
    for name in args.names:
        if all(pod.metadata.name != name for pod in chosen):
            raise asking.not_found(name, args.namespace, everything)
    return [pod for name in args.names for pod in chosen if pod.metadata.name == name]


def _nothing(args: argparse.Namespace, everything: Sequence[Pod]) -> str:
    if args.all_namespaces or not everything:
        return "No resources found" if args.all_namespaces else f"No resources found in {args.namespace} namespace."
    return f"No resources found in {args.namespace} namespace. ({len(everything)} pods in others: use -A)"


def _print_rows(table: PodTable, pods: Iterable[Pod]) -> None:
    now = asking.now_ns()
    for line in table.lines(pod_row(pod, now) for pod in pods):
        print(line)
    sys.stdout.flush()


async def _print_troubles(agent: Agent) -> None:
    """Whatever may be why a pod is not there or not well, and is not in its row."""
    for trouble in (await asking.node(agent)).troubles:
        print(in_a_cell(f"warning: {trouble}"), file=sys.stderr)
    for fault in await asking.faults(agent):
        kept = f" [{', '.join(fault.running)}: the last good version keeps running]" if fault.running else ""
        print(in_a_cell(f"{fault}{kept}"), file=sys.stderr)


async def _watch(agent: Agent, args: argparse.Namespace, known: dict[str, Pod], table: PodTable | None) -> None:
    """Show every change until interrupted. What was shown already, and did not change since, is not shown again."""
    async with agent.stream("/pods", {"watch": "true"}) as parts:
        async for line in _lines(parts):
            change = msgspec.json.decode(line, type=Change)
            pod = change.object
            if change.type == "ADDED" and known.pop(pod.metadata.uid, None) == pod:
                continue
            if not (args.all_namespaces or pod.metadata.namespace == args.namespace):
                continue
            if args.names and pod.metadata.name not in args.names:
                continue
            if table is not None:
                _print_rows(table, [pod])
            else:
                show(pod, [pod], args.output)


async def _lines(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    torn = b""
    async for part in parts:
        *whole, torn = (torn + part).split(b"\n")
        for line in whole:
            yield line


async def _events(args: argparse.Namespace) -> None:
    agent = Agent(asking.socket_path(args))
    shown = [
        event
        for event in await asking.events(agent)
        if args.all_namespaces or (event.metadata.namespace or asking.DEFAULT_NAMESPACE) == args.namespace
    ]
    if args.output not in (TABLE, WIDE):
        show(as_list(shown), shown, args.output)
        return
    now = asking.now_ns()
    rows = [
        (
            since(event.last_timestamp, now),
            event.type,
            event.reason,
            f"{event.involved_object.kind.lower()}/{event.involved_object.name}",
            event.message,
        )
        for event in shown
    ]
    for line in Table(EVENT_COLUMNS, show_headings=not args.no_headers).lines(rows):
        print(line)
    if not rows:
        print("No events", file=sys.stderr)
