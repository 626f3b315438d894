"""``trikubelet validate FILE…``: every fault of manifests, before an agent has to find them. Needs no agent."""

from __future__ import annotations

import argparse
import socket
from typing import TYPE_CHECKING

from trikubelet.cli.arguments import Parser
from trikubelet.cli.validate import validate_files

if TYPE_CHECKING:
    from collections.abc import Sequence


def parser() -> argparse.ArgumentParser:
    """The arguments of ``validate``."""
    made = Parser(
        prog="trikubelet validate",
        description="Find every fault of manifests, with file, line and field. Exit code 1 when there is one.",
    )
    made.add_argument(
        "files", nargs="+", metavar="FILE", help="a manifest, a directory of them, or - for standard input"
    )
    made.add_argument(
        "--hostname-override",
        metavar="NAME",
        default=socket.gethostname().lower(),
        help="the node the pods are for, whose name ends theirs (default: %(default)s)",
    )
    return made


def run(argv: Sequence[str]) -> int:
    """Carry out ``validate``: 0 without a fault, 1 with one."""
    args = parser().parse_args(argv)
    lines, exit_code = validate_files(args.files, args.hostname_override)
    for line in lines:
        print(line)
    return exit_code
