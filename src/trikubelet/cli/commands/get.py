"""``trikubelet get KIND [NAME…]``: tables as kubectl prints them, or the objects themselves.

    arguments ─► selection (cli.things) ─► a request to the agent for each kind ─► output (cli.listing)
                                                                                └─► --watch: then each change

Faults of manifests are part of the answer about pods: a user who looks for the pod of a new manifest must learn here
why it is missing. They go to standard error, so that programs can read the table.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

import msgspec

from trikubelet.cli import asking, blocking, interruptible
from trikubelet.cli.failed import CommandFailed, Misunderstood
from trikubelet.cli.kinds import PODS, Listed, listed_pod
from trikubelet.cli.listing import Listing, Style
from trikubelet.cli.terminal import in_a_cell
from trikubelet.cli.things import Wanted, read_things
from trikubelet.cli.words.get import parser
from trikubelet.core.kubectl.label_columns import LabelColumns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.cli.client import AgentClient
    from trikubelet.core.jsonpath import Path

LOOK_SECONDS: Final = 1.0
"""Time between two requests of a watch of anything but pods, in seconds."""


def read_path(said: str) -> tuple[str, Path]:
    """Return the value of ``--sort-by``: the field path as given, and parsed. Raises ValueError."""
    from trikubelet.core.jsonpath import parse_relaxed  # noqa: PLC0415 - only a path needs it

    return said, parse_relaxed(said)


def run(argv: Sequence[str]) -> int:
    """Run ``get`` and return the exit code. Raises CommandFailed."""
    args = parser().parse_intermixed_args(argv)
    wanted = read_things(args)
    if args.watch and len(wanted) > 1:
        raise Misunderstood("you may only specify a single resource type to watch")
    if args.watch and args.sort_by:
        print("warning: --watch requested, --sort-by will be ignored for watch events received", file=sys.stderr)
    run_it = interruptible.run if args.watch else blocking.run
    run_it(_get, args, wanted, Listing(_style(args, with_kinds=len(wanted) > 1)))
    return 0


def _style(args: argparse.Namespace, *, with_kinds: bool) -> Style:
    """Return the format. Raises Misunderstood for options that exclude each other."""
    if args.show_labels and not args.output.is_table:
        raise Misunderstood(f"--show-labels option cannot be used with {args.output.form} printer")
    names = tuple(name for some in args.label_columns for name in some.split(",") if name)
    labels = LabelColumns(names, args.show_labels)
    return Style(args.output, labels, args.all_namespaces, with_kinds, not args.no_headers, args.sort_by)


class Answer(msgspec.Struct, frozen=True):
    """The objects of one kind: all of them, the selected ones, and an error for each missing name."""

    wanted: Wanted
    everything: Sequence[Listed]
    meant: Sequence[Listed]
    errors: Sequence[str]


async def _get(args: argparse.Namespace, wanted: Sequence[Wanted], listing: Listing) -> None:
    agent = asking.agent_of(args)
    answers = [_answer(one, await one.kind.ask(agent)) for one in wanted]
    pods = next((answer for answer in answers if answer.wanted.kind is PODS), None)
    found = sum(len(answer.meant) for answer in answers)
    errors = [error for answer in answers for error in answer.errors]
    missing = CommandFailed("\nerror: ".join(errors)) if errors else None
    # Below a table the faults are printed anyway.
    if missing and pods is not None and pods.errors and not (found and args.output.is_table):
        missing = await asking.with_faults(agent, missing)
    if missing and not found:
        raise missing
    is_one = found == 1 == sum(len(one.names) for one in wanted)
    listing.print_all([(answer.wanted.kind, answer.meant) for answer in answers], is_one=is_one)
    if args.output.is_table and not found and not args.watch:
        print(_nothing(args, answers), file=sys.stderr)
    if args.output.is_table and pods is not None:
        await _print_problems(agent)
    if missing:
        raise missing
    if args.watch and pods is not None:
        await _watch(agent, pods, listing)
    elif args.watch:
        await _look_again(agent, answers[0], listing)


def _answer(wanted: Wanted, everything: Sequence[Listed]) -> Answer:
    """Return the selected objects. Errors about names are collected, so that the other objects are shown first."""
    fitting = [one for one in everything if wanted.fits(one)]
    if not wanted.names:
        return Answer(wanted, everything, fitting, ())
    meant: list[Listed] = []
    errors: list[str] = []
    for name in wanted.names:
        try:
            found = wanted.named(name, fitting)
        except CommandFailed as error:
            errors.append(str(error))
        else:
            meant += found
            errors += [] if found else [str(wanted.missing(name, everything))]
    return Answer(wanted, everything, meant, errors)


def _nothing(args: argparse.Namespace, answers: Sequence[Answer]) -> str:
    if args.all_namespaces or not all(answer.wanted.kind.namespaced for answer in answers):
        return asking.nothing_found()
    (answer, *others), selects = answers, args.selector is not None or args.field_selector or args.about
    elsewhere = 0 if others or selects else len(answer.everything)
    return asking.nothing_found(args.namespace, asking.counted(elsewhere, answer.wanted.kind.name))


async def _print_problems(agent: AgentClient) -> None:
    """Print problems that may explain a missing or unhealthy pod and are not in its row."""
    for problem in (await asking.node(agent)).problems:
        print(in_a_cell(f"warning: {problem}"), file=sys.stderr)
    for fault in await asking.faults(agent):
        kept = f" [{', '.join(fault.running)}: the last good version keeps running]" if fault.running else ""
        print(in_a_cell(f"{fault}{kept}"), file=sys.stderr)


async def _watch(agent: AgentClient, answer: Answer, listing: Listing) -> None:
    """Print every change of pods until interrupted, but no pod that looks as it did when it was last printed."""
    known = {one.whole.metadata.uid: one.whole for one in answer.everything}
    async with asking.pod_changes(agent) as changes:
        async for change in changes:
            pod = change.object
            if change.type == "ADDED" and known.pop(pod.metadata.uid, None) == pod:
                continue
            if answer.wanted.has(one := listed_pod(pod)):
                listing.print_change(PODS, one)


async def _look_again(agent: AgentClient, answer: Answer, listing: Listing) -> None:
    """Do the same for kinds without a watch: print each changed object as it is now, and each removed one as it last
    was."""
    from trikubelet.kit.every import Every  # noqa: PLC0415 - only a watch needs Trio

    wanted, kind = answer.wanted, answer.wanted.kind
    known = {one.identity: one for one in answer.everything}
    async for _ in Every(LOOK_SECONDS):
        now = {one.identity: one for one in await kind.ask(agent)}
        changed = [one for identity, one in known.items() if identity not in now]
        changed += [one for key, one in now.items() if key not in known or known[key].whole != one.whole]
        for one in changed:
            if wanted.has(one):
                listing.print_change(kind, one)
        known = now
