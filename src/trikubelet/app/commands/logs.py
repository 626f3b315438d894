"""``trikubelet logs POD [CONTAINER]``: what a container wrote, as it wrote it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

import trio

from trikubelet.app.client import Agent
from trikubelet.app.commands import asking
from trikubelet.app.commands.failed import CommandFailed
from trikubelet.model.duration import parse_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.model.k8s import Pod

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
"""The annotation by which a pod says whose log is meant when nobody says."""


def parser() -> argparse.ArgumentParser:
    """The words of ``logs``."""
    made = argparse.ArgumentParser(prog="trikubelet logs", description="Print what a container of a pod wrote.")
    made.add_argument("pod", metavar="POD")
    made.add_argument("container", nargs="?", metavar="CONTAINER", help="the same as -c")
    made.add_argument("-c", "--container", dest="option", metavar="NAME", help="default: the pod's first container")
    made.add_argument("-f", "--follow", action="store_true", help="go on until the container ends")
    made.add_argument("-p", "--previous", action="store_true", help="of the run before this one")
    made.add_argument("--tail", type=int, default=-1, metavar="LINES", help="only the last lines (default: all)")
    made.add_argument("--since", metavar="DURATION", help="only what is younger, such as 5s, 2m or 3h")
    made.add_argument("--since-time", metavar="TIME", help="only what is younger, such as 2026-11-21T07:01:02Z")
    made.add_argument("--limit-bytes", type=int, metavar="BYTES", help="at most so much")
    made.add_argument("--timestamps", action="store_true", help="with the time of each line before it")
    asking.add_namespace_option(made)
    asking.add_agent_options(made)
    return made


def run(argv: Sequence[str]) -> int:
    """Carry out ``logs``; the exit code. Raises CommandFailed."""
    args = parser().parse_args(argv)
    if args.container and args.option and args.container != args.option:
        parser().error("two containers: give one, as CONTAINER or with -c")
    trio.run(_logs, args, _query(args))
    return 0


def _query(args: argparse.Namespace) -> dict[str, str]:
    """The words for the agent. Raises CommandFailed."""
    query = {name: "true" for name in ("follow", "previous", "timestamps") if getattr(args, name)}
    if args.tail >= 0:
        query["tailLines"] = str(args.tail)
    if args.since and args.since_time:
        raise CommandFailed("--since and --since-time: give one of them")
    if args.since:
        try:
            seconds = parse_duration(args.since)
        except ValueError as error:
            raise CommandFailed(f"--since: {error}") from error
        if seconds <= 0:
            raise CommandFailed("--since: must be longer than nothing")
        query["sinceSeconds"] = str(max(1, round(seconds)))
    if args.since_time:
        query["sinceTime"] = args.since_time
    if args.limit_bytes is not None:
        query["limitBytes"] = str(args.limit_bytes)
    return query


async def _logs(args: argparse.Namespace, query: dict[str, str]) -> None:
    agent = Agent(asking.socket_path(args))
    name = asking.bare_name(args.pod)
    container = args.option or args.container or await _default_container(agent, args.namespace, name)
    async with agent.stream(f"/logs/{args.namespace}/{name}/{container}", query) as parts:
        async for part in parts:
            sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()


async def _default_container(agent: Agent, namespace: str, name: str) -> str:
    known = await asking.pods(agent)
    pod = next((pod for pod in known if (pod.metadata.namespace, pod.metadata.name) == (namespace, name)), None)
    if pod is None:
        raise asking.not_found(name, namespace, known)
    return _container_of(pod)


def _container_of(pod: Pod) -> str:
    """The container that is meant when nobody says: the one the pod's annotation names, else the first."""
    names = [container.name for container in pod.spec.containers]
    wanted = pod.metadata.annotations.get(DEFAULT_CONTAINER, "")
    if not names:
        raise CommandFailed(f'pod "{pod.metadata.name}" has no containers')
    chosen = wanted if wanted in names else names[0]
    if len(names) > 1 and not wanted:
        others = ", ".join(name for name in names if name != chosen)
        print(f'No container was named: this is "{chosen}"; there are also {others}', file=sys.stderr)
    return chosen
