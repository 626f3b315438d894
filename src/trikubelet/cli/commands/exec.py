"""``trikubelet exec POD [-c NAME] [-it] -- COMMAND…``: run a command in a container and exit with its exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.cli import blocking
from trikubelet.cli.talking import talk
from trikubelet.cli.words.exec import parser

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(argv: Sequence[str]) -> int:
    """Run ``exec`` and return the command's exit code. Raises CommandFailed."""
    arguments = list(argv)
    at = arguments.index("--") if "--" in arguments else len(arguments)
    args = parser().parse_args(arguments[:at])
    command = [*args.command, *arguments[at + 1 :]]
    if not command:
        parser().error("missing command: write it after --")
    return blocking.run(talk, args, "exec", command)
