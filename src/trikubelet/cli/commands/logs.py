"""``trikubelet logs POD [CONTAINER]``: the log of a container, or those of several.

    POD [CONTAINER]         ─► one log
    POD --all-containers    ─► those of the pod's containers  ┐ one after another; with -f side by side, at most
    -l app=web              ─► those of the pods selected     ┘ --max-log-requests of them

When several containers are followed, lines appear as they are written and are never torn; ``--prefix`` puts the pod and
the container before each.
"""

from __future__ import annotations

import argparse
import sys
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from trikubelet.cli import asking, blocking, interruptible
from trikubelet.cli.client import AgentClient, AgentObjects
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.terminal import in_lines
from trikubelet.cli.whole_lines import WholeLines
from trikubelet.cli.words.logs import parser
from trikubelet.core.names import with_ephemeral
from trikubelet.core.query import COUNT_MAX
from trikubelet.core.timestamps import parse_rfc3339
from trikubelet.model.duration import parse_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.model.k8s import Pod


SELECTED_TAIL: Final = 10
"""The default number of lines for each selected pod, as with kubectl."""


def read_tail(said: str) -> int:
    """Return a number of lines, -1 for all. Raises ValueError."""
    if said == "-1":
        return -1
    if not (said.isascii() and said.isdecimal() and len(said) <= len(str(COUNT_MAX))):
        raise ValueError(f"{said!r} is not a whole number from 0 to {COUNT_MAX}, nor -1 for all")
    return int(said)


def read_since(said: str) -> int:
    """Return a number of seconds, at least one. Raises ValueError."""
    seconds = parse_duration(said)
    if seconds <= 0:
        raise ValueError("must be more than 0")
    return max(1, round(seconds))


def read_time(said: str) -> str:
    """Return a time as it was written. Raises ValueError if it is invalid."""
    parse_rfc3339(said)
    return said


def run(argv: Sequence[str]) -> int:
    """Run ``logs`` and return the exit code. Raises CommandFailed."""
    args = parser().parse_intermixed_args(argv)
    if args.container and args.option and args.container != args.option:
        parser().error("two containers given: give one, as CONTAINER or with -c")
    if args.all_containers and (args.container or args.option):
        parser().error("--all-containers and a container exclude each other")
    if bool(args.pod) is (args.selector is not None):
        parser().error("only a selector (-l) or a POD name is allowed" if args.pod else "expected POD or -l SELECTOR")
    if args.since and args.since_time:
        parser().error("flags --since and --since-time exclude each other")
    run_it = interruptible.run if args.follow else blocking.run
    return run_it(_logs, args, _query(args))


def _query(args: argparse.Namespace) -> dict[str, str]:
    """Return the query for the agent."""
    query = {name: "true" for name in ("follow", "previous", "timestamps") if getattr(args, name)}
    tail = args.tail if args.tail is not None else -1 if args.selector is None else SELECTED_TAIL
    if tail >= 0:
        query["tailLines"] = str(tail)
    if args.since:
        query["sinceSeconds"] = str(args.since)
    if args.since_time:
        query["sinceTime"] = args.since_time
    if args.limit_bytes is not None:
        query["limitBytes"] = str(args.limit_bytes)
    return query


async def _logs(args: argparse.Namespace, query: dict[str, str]) -> int:
    agent = asking.agent_of(args)
    if args.selector is not None:
        pods = [pod for pod in await asking.pods(agent) if pod.metadata.namespace == args.namespace]
        pods = [pod for pod in pods if args.selector(pod.metadata.labels)]
        if not pods:
            print(asking.nothing_found(args.namespace), file=sys.stderr)
        return await _several(agent, args, query, [place for pod in pods for place in _places(args, pod)])
    name = asking.bare_name(args.pod)
    container = args.option or args.container
    if not container:
        pod = await asking.pod_named(agent, args.namespace, name)
        if args.all_containers:
            return await _several(agent, args, query, _places(args, pod))
        container = asking.default_container(pod)
    try:
        await _print(agent, args, query, f"{args.namespace}/{name}/{container}")
    except AgentObjects as error:
        if error.status == HTTPStatus.NOT_FOUND:
            await asking.pod_named(agent, args.namespace, name)  # whose error names the nearest pods
        raise
    return 0


def _places(args: argparse.Namespace, pod: Pod) -> list[str]:
    """Return the places of a pod's requested logs: ``NAMESPACE/POD/CONTAINER``."""
    if args.all_containers:
        containers = [container.name for container in with_ephemeral(pod)]
    else:
        containers = [args.option or asking.default_container(pod)]
    return [f"{pod.metadata.namespace}/{pod.metadata.name}/{container}" for container in containers]


async def _several(agent: AgentClient, args: argparse.Namespace, query: dict[str, str], places: Sequence[str]) -> int:
    """Print several logs, concurrently if they are followed, and return the exit code. A container without a log is
    reported, and makes the exit code 1. Raises CommandFailed for too many to follow."""
    if args.follow and len(places) > args.max_log_requests:
        raise CommandFailed(
            f"you are attempting to follow {len(places)} log streams, but maximum allowed concurrency is"
            f" {args.max_log_requests}, use --max-log-requests to increase the limit"
        )
    by_line = args.follow and len(places) > 1
    missing: list[str] = []

    async def one(place: str) -> None:
        try:
            await _print(agent, args, query, place, by_line=by_line)
        except CommandFailed as error:
            missing.append(place)
            print(f"error: {in_lines(str(error))}", file=sys.stderr)

    if args.follow:
        import trio  # noqa: PLC0415 - needed only to follow several at once

        async with trio.open_nursery() as nursery:
            for place in places:
                nursery.start_soon(one, place)
    else:
        for place in places:
            await one(place)
    return 1 if missing else 0


async def _print(
    agent: AgentClient, args: argparse.Namespace, query: dict[str, str], place: str, *, by_line: bool = False
) -> None:
    """Print one container's log. ``by_line``: only whole lines, because others are written in between."""
    by_line = by_line or args.prefix
    before = f"[pod/{place.split('/', 1)[1]}] ".encode() if args.prefix else b""
    lines = WholeLines(before)
    async with agent.stream(f"/logs/{place}", query) as parts:
        async for part in parts:
            _write(lines.of(part) if by_line else part)
    _write(lines.rest())


def _write(part: bytes) -> None:
    sys.stdout.buffer.write(part)
    sys.stdout.buffer.flush()
