"""What ``exec`` and ``attach`` share: which container, which streams, a terminal or none, and the exit code."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING

from trikubelet.cli import asking
from trikubelet.cli.client import AgentClient
from trikubelet.cli.remote_process import of_this_process, raw_terminal
from trikubelet.core.remote_command import V4
from trikubelet.model.runtime import StandardStreams

if TYPE_CHECKING:
    from collections.abc import Sequence


def add_talking_options(parser: argparse.ArgumentParser) -> None:
    """``POD``, ``-c``, ``-i``, ``-t``, and where all that is."""
    parser.add_argument("pod", metavar="POD", help="which")
    parser.add_argument("-c", "--container", default="", metavar="NAME", help="default: the pod's first container")
    parser.add_argument("-i", "--stdin", action="store_true", help="let it read what this command reads")
    parser.add_argument("-t", "--tty", action="store_true", help="with a terminal")
    asking.add_namespace_option(parser)
    asking.add_agent_options(parser)


async def talk(args: argparse.Namespace, way: str, command: Sequence[str] = ()) -> int:
    """Talk until the process ends; its exit code. Raises CommandFailed."""
    agent = AgentClient(asking.socket_path(args))
    pod = await asking.pod_named(agent, args.namespace, asking.bare_name(args.pod))
    container = args.container or asking.default_container(pod)
    terminal = args.tty
    if terminal and not (args.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        print("Unable to use a TTY - input is not a terminal or the right kind of file", file=sys.stderr)
        terminal = False
    streams = StandardStreams(stdin=args.stdin, stdout=True, stderr=not terminal, tty=terminal)
    asked = {"input": streams.stdin, "output": True, "error": streams.stderr, "tty": terminal}
    query = [("command", word) for word in command] + [(name, "1") for name, wanted in asked.items() if wanted]
    path = f"/{way}/{pod.metadata.namespace}/{pod.metadata.name}/{container}"
    async with agent.upgraded(path, query, V4) as stream:
        with raw_terminal() if terminal else nullcontext():
            return await of_this_process(stream, streams).run()
