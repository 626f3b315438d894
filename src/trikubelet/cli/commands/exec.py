"""``trikubelet exec POD [-c NAME] [-it] -- COMMAND…``: a command in a container; its exit code is this command's."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from trikubelet.cli import interruptible
from trikubelet.cli.arguments import Parser
from trikubelet.cli.talking import add_talking_options, talk

if TYPE_CHECKING:
    from collections.abc import Sequence


def parser() -> argparse.ArgumentParser:
    """The arguments of ``exec``."""
    made = Parser(
        prog="trikubelet exec",
        usage="trikubelet exec [-c NAME] [-i] [-t] [-n NAME] POD -- COMMAND [ARGUMENT...]",
        description="Run a command in a container. Ends with the command's exit code.",
    )
    add_talking_options(made)
    made.add_argument("command", nargs="*", metavar="COMMAND", help="what to run, behind --")
    return made


def run(argv: Sequence[str]) -> int:
    """Carry out ``exec``; the command's exit code. Raises CommandFailed."""
    arguments = list(argv)
    at = arguments.index("--") if "--" in arguments else len(arguments)
    args = parser().parse_args(arguments[:at])
    command = [*args.command, *arguments[at + 1 :]]
    if not command:
        parser().error("what is to be run? write -- and the command")
    return interruptible.run(talk, args, "exec", command)
