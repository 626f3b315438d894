"""``trikubelet wait POD… --for=WHAT``: wait until all of the pods meet a condition, or the timeout expires.

    condition=Ready          a condition that is True; condition=Ready=False for another value
    phase=Succeeded          the pod's phase
    jsonpath={.a.b}=VALUE    a template's result for the pod
    create                   the pod exists
    delete                   the pod is gone, or another instance of that name exists

A pod that does not exist yet is waited for, because its manifest may be new.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import msgspec

from trikubelet.cli import asking, blocking
from trikubelet.cli.blocking import Looks
from trikubelet.cli.client import AgentClient
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.words.wait import parser
from trikubelet.core.jsonpath import OutOfBounds, parse_template, render

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trikubelet.core.jsonpath import Part
    from trikubelet.model.k8s import Pod

    Goal = Callable[[Pod], bool]

CREATE, DELETE = "create", "delete"
LOOK_SECONDS = 0.5
"""Seconds between two reads of the pods. A watch would be no faster, and would not show whether a pod ended before it
began."""


def read_goal(said: str) -> Goal | None:
    """Return the condition of a pod; None for one that must be gone. Raises ValueError."""
    kind, _, rest = said.partition("=")
    if said == DELETE:
        return None
    if said == CREATE:
        return is_there
    if kind == "condition" and rest:
        type_, _, value = rest.partition("=")
        return lambda pod: _condition(pod, type_).lower() == (value or "True").lower()
    if kind == "phase" and rest:
        return lambda pod: (pod.status.phase if pod.status else "").lower() == rest.lower()
    if kind == "jsonpath" and "}=" in rest:
        template, _, value = rest.rpartition("}=")
        parts = parse_template(f"{template}}}")
        return lambda pod: _said(parts, pod) == value
    raise ValueError(f"{said!r} is none of condition=TYPE[=VALUE], phase=PHASE, jsonpath={{…}}=VALUE, create, delete")


def is_there(_: Pod) -> bool:
    """True: a pod that is checked exists."""
    return True


def _said(template: Sequence[Part], pod: Pod) -> str | None:
    """Return the template's result; None while a list is too short for it, like that of a pod's statuses at first."""
    try:
        return render(template, msgspec.to_builtins(pod))
    except OutOfBounds:
        return None


def _condition(pod: Pod, type_: str) -> str:
    conditions = pod.status.conditions if pod.status else ()
    return next((one.status for one in conditions if one.type.lower() == type_.lower()), "")


def run(argv: Sequence[str]) -> int:
    """Run ``wait`` and return the exit code. Raises CommandFailed."""
    args = parser().parse_intermixed_args(argv)
    args.names = asking.pod_names(args.names)
    if not args.names and args.selector is None and not args.all:
        parser().error("missing argument: give names, -l or --all")
    if args.names and args.all:
        parser().error("names and --all exclude each other")
    blocking.run(_wait, args)
    return 0


async def _wait(args: argparse.Namespace) -> None:
    agent = asking.agent_of(args)
    first = lives = await _first(agent, args)
    left = dict.fromkeys(args.names or [pod.metadata.name for pod in first])
    async for number in Looks(LOOK_SECONDS, args.timeout):
        if number:
            lives = await _lives(agent, args)
        if not _strike_off(left, args.goal, lives, first):
            break
    for name in left:
        if all(pod.metadata.name != name for pod in lives):
            raise asking.not_found(name, args.namespace, await asking.pods(agent))
    if left:
        raise CommandFailed(f"timed out waiting for the condition on {', '.join(f'pods/{name}' for name in left)}")


async def _first(agent: AgentClient, args: argparse.Namespace) -> list[Pod]:
    """Return the selected pods at the beginning; there may be none if they are named. If ``create`` waits for selected
    pods, the beginning is when there is one. Raises CommandFailed if none is selected."""
    creates = args.goal is is_there
    async for _ in Looks(LOOK_SECONDS, args.timeout):
        pods = await _lives(agent, args)
        if pods or args.names:
            return pods
        if not creates:
            raise CommandFailed("no matching resources found")
    raise CommandFailed("timed out waiting for the condition: no pod matches")


async def _lives(agent: AgentClient, args: argparse.Namespace) -> list[Pod]:
    """Return the selected pods."""
    return [pod for pod in await asking.pods(agent) if _is_meant(args, pod)]


def _is_meant(args: argparse.Namespace, pod: Pod) -> bool:
    meta = pod.metadata
    if meta.namespace != args.namespace or (args.names and meta.name not in args.names):
        return False
    return args.selector is None or bool(args.selector(meta.labels))


def _strike_off(left: dict[str, None], goal: Goal | None, lives: Sequence[Pod], first: Sequence[Pod]) -> bool:
    """Remove the names that have met the goal, and print them. Return true if others are left. ``first``: the pods at
    the beginning."""
    old = {pod.metadata.uid for pod in first}
    for name in list(left):
        named = [pod for pod in lives if pod.metadata.name == name]
        if goal is None:
            met, said = all(pod.metadata.uid not in old for pod in named), "deleted"
        else:
            met, said = any(map(goal, named)), "condition met"
        if met:
            del left[name]
            print(f"pod/{name} {said}", flush=True)
    return bool(left)
