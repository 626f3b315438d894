"""``trikubelet restart POD [-c CONTAINER]``: stop containers, which their pod then starts again.

Each is stopped as ever, with its preStop hook and within its grace, and counted as a restart. One whose restart policy
is Never would not come again, and is left alone.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from trikubelet.cli import asking, interruptible
from trikubelet.cli.arguments import Parser
from trikubelet.cli.client import AgentClient

if TYPE_CHECKING:
    from collections.abc import Sequence


def parser() -> argparse.ArgumentParser:
    """The arguments of ``restart``."""
    made = Parser(prog="trikubelet restart", description="Restart the containers of pods.")
    made.add_argument("names", nargs="+", metavar="POD", help="whose")
    made.add_argument("-c", "--container", default="", metavar="NAME", help="only this one (default: all)")
    asking.add_namespace_option(made)
    asking.add_agent_options(made)
    return made


def run(argv: Sequence[str]) -> int:
    """Carry out ``restart``; the exit code. Raises CommandFailed."""
    args = parser().parse_intermixed_args(argv)
    args.names = asking.pod_names(args.names)
    if not args.names:
        parser().error("which pods? give names")
    interruptible.run(_restart, args)
    return 0


async def _restart(args: argparse.Namespace) -> None:
    agent = AgentClient(asking.socket_path(args))
    for name in args.names:
        await asking.pod_named(agent, args.namespace, name)  # whose error says what there is instead
        for container in await asking.restart(agent, args.namespace, name, args.container):
            print(f"pod/{name} container {container} restarted", flush=True)
