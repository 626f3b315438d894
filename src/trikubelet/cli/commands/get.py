"""``trikubelet get KIND [NAME…]``: tables as kubectl prints them, or the objects themselves.

Faulty manifests are part of the answer about pods: a person who looks for the pod they just wrote down must learn here
why it is not there. They go to standard error, so that whatever reads the table is not disturbed.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from trikubelet.cli import asking, blocking, interruptible
from trikubelet.cli.arguments import Parser, valid_selector
from trikubelet.cli.client import AgentClient
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.kinds import KINDS, PODS, Listed, add_kind_argument, listed_pod, read_things
from trikubelet.cli.objects import TABLE, WIDE, Output, as_list, read_output, show
from trikubelet.cli.tables import Table
from trikubelet.cli.terminal import in_a_cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trikubelet.cli.kinds import Kind
    from trikubelet.model.k8s import Pod

LOOK_SECONDS: Final = 1.0
"""How often a watch of anything but pods asks again."""


def parser() -> argparse.ArgumentParser:
    """The arguments of ``get``."""
    made = Parser(prog="trikubelet get", description="Show what this node runs.")
    add_kind_argument(made, [kind.names[0] for kind in KINDS], "what to show")
    made.add_argument("names", nargs="*", default=[], metavar="NAME", help="only these")  # else argparse requires it
    made.add_argument(
        "-o",
        "--output",
        type=read_output,
        default=Output(TABLE),
        metavar="wide|json|yaml|name|jsonpath=TEMPLATE",
        help="another form",
    )
    made.add_argument(
        "-l", "--selector", type=valid_selector, metavar="LABELS", help="only what has such labels: a=b,c!=d,e in (f,g)"
    )
    made.add_argument("-w", "--watch", action="store_true", help="go on and show every change")
    made.add_argument("-A", "--all-namespaces", action="store_true", help="of every namespace")
    made.add_argument("--no-headers", action="store_true", help="without the headings")
    asking.add_namespace_option(made)
    asking.add_agent_options(made)
    return made


def run(argv: Sequence[str]) -> int:
    """Carry out ``get``; the exit code. Raises CommandFailed."""
    args = parser().parse_intermixed_args(argv)
    kind = read_things(args)
    if args.names and args.selector is not None:
        parser().error("names and a selector: give one of them")
    run_it = interruptible.run if args.watch else blocking.run
    run_it(_get, args, kind)
    return 0


async def _get(args: argparse.Namespace, kind: Kind) -> None:
    agent = asking.agent_of(args)
    everything = await kind.ask(agent)
    shown, missing = _chosen(args, kind, everything)
    if missing and kind is PODS and not (shown and args.output.is_table):  # below a table the faults stand anyway
        missing = await asking.with_faults(agent, missing)
    if missing and not shown:
        raise missing
    table = _table(args, kind) if args.output.is_table else None
    if table is not None:
        _print_rows(table, args, kind, shown)
        if not shown and not args.watch:
            print(_nothing(args, kind, everything), file=sys.stderr)
    else:
        wholes = [one.whole for one in shown]
        single = len(args.names) == 1 and len(wholes) == 1
        show(wholes[0] if single else as_list(wholes), [f"{kind.name}/{one.name}" for one in shown], args.output)
    if kind is PODS and table is not None:
        await _print_problems(agent)
    if missing:
        raise missing
    if args.watch and kind is PODS:
        await _watch(agent, args, {one.whole.metadata.uid: one.whole for one in everything}, table)
    elif args.watch:
        await _look_again(agent, args, kind, everything, table)


def _chosen(
    args: argparse.Namespace, kind: Kind, everything: Sequence[Listed]
) -> tuple[list[Listed], CommandFailed | None]:
    """What was asked for, and what to say of names that are not there."""
    chosen = [one for one in everything if _is_meant(args, kind, one)]
    if not args.names:
        return chosen, None
    there = {one.name for one in chosen}
    lost = [str(_missing(args, kind, name, everything)) for name in args.names if name not in there]
    found = [one for name in args.names for one in chosen if one.name == name]
    return found, CommandFailed("\nerror: ".join(lost)) if lost else None


def _missing(args: argparse.Namespace, kind: Kind, name: str, everything: Sequence[Listed]) -> CommandFailed:
    if kind is PODS:
        return asking.not_found(name, args.namespace, [one.whole for one in everything])
    return CommandFailed(f'{kind.names[0]} "{name}" not found')


def _is_meant(args: argparse.Namespace, kind: Kind, one: Listed) -> bool:
    if kind.namespaced and not args.all_namespaces and one.namespace != args.namespace:
        return False
    return args.selector is None or args.selector(one.labels)


def _nothing(args: argparse.Namespace, kind: Kind, everything: Sequence[Listed]) -> str:
    if not kind.namespaced or args.all_namespaces:
        return "No resources found"
    others = len(everything) if args.selector is None else 0
    hint = f" ({others} {kind.names[0]} in others: use -A)" if others else ""
    return f"No resources found in {args.namespace} namespace.{hint}"


def _table(args: argparse.Namespace, kind: Kind) -> Table:
    columns = ["NAMESPACE"] if kind.namespaced and args.all_namespaces else []
    columns += [*kind.columns, *(kind.wide if args.output.form == WIDE else ())]
    return Table(columns, show_headings=not args.no_headers)


def _print_rows(table: Table, args: argparse.Namespace, kind: Kind, shown: Iterable[Listed]) -> None:
    width = len(kind.columns) + (len(kind.wide) if args.output.form == WIDE else 0)
    before = [""] if kind.namespaced and args.all_namespaces else []
    for line in table.lines([*(one.namespace for _ in before), *one.cells[:width]] for one in shown):
        print(line)
    sys.stdout.flush()


async def _print_problems(agent: AgentClient) -> None:
    """Whatever may be why a pod is not there or not well, and is not in its row."""
    for problem in (await asking.node(agent)).problems:
        print(in_a_cell(f"warning: {problem}"), file=sys.stderr)
    for fault in await asking.faults(agent):
        kept = f" [{', '.join(fault.running)}: the last good version keeps running]" if fault.running else ""
        print(in_a_cell(f"{fault}{kept}"), file=sys.stderr)


async def _watch(agent: AgentClient, args: argparse.Namespace, known: dict[str, Pod], table: Table | None) -> None:
    """Show every change until interrupted. What was shown already, and did not change since, is not shown again."""
    async with asking.pod_changes(agent) as changes:
        async for change in changes:
            pod = change.object
            if change.type == "ADDED" and known.pop(pod.metadata.uid, None) == pod:
                continue
            _show_change(args, PODS, listed_pod(pod), table)


async def _look_again(
    agent: AgentClient, args: argparse.Namespace, kind: Kind, everything: Iterable[Listed], table: Table | None
) -> None:
    """The same of what the agent has no watch for: of what changed how it is now, of what is gone how it last was."""
    from trikubelet.kit.every import Every  # noqa: PLC0415 - only a watch takes Trio

    known = {one.identity: one for one in everything}
    async for _ in Every(LOOK_SECONDS):
        now = {one.identity: one for one in await kind.ask(agent)}
        for identity in known.keys() - now.keys():
            _show_change(args, kind, known[identity], table)
        for identity, one in now.items():
            if identity not in known or known[identity].whole != one.whole:
                _show_change(args, kind, one, table)
        known = now


def _show_change(args: argparse.Namespace, kind: Kind, one: Listed, table: Table | None) -> None:
    if not _is_meant(args, kind, one) or (args.names and one.name not in args.names):
        return
    if table is not None:
        _print_rows(table, args, kind, [one])
    else:
        show(one.whole, [f"{kind.name}/{one.name}"], args.output)
