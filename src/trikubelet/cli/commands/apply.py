"""``trikubelet apply -f FILE``: put manifests where the agent finds them.

All of them are checked first, as ``validate`` does, and against what is there; with a fault nothing is touched. Each
file is moved into place whole, for its owner alone to read. What it defines stays in the file it was in before,
whatever this one is called.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from trikubelet.cli import manifests
from trikubelet.cli.arguments import Parser

if TYPE_CHECKING:
    from collections.abc import Sequence


def parser() -> argparse.ArgumentParser:
    """The arguments of ``apply``."""
    made = Parser(
        prog="trikubelet apply",
        description="Put manifests into the agent's directory, once they have no fault. With a fault nothing is done.",
    )
    made.add_argument(
        "-f",
        "--filename",
        action="append",
        required=True,
        metavar="FILE",
        help="a manifest, a directory of them, or - for standard input; may be repeated",
    )
    manifests.add_directory_options(made)
    return made


def run(argv: Sequence[str]) -> int:
    """Carry out ``apply``; the exit code. Raises CommandFailed and OSError."""
    args = parser().parse_args(argv)
    place, node = manifests.directory(args)
    given = manifests.given(args.filename, node)
    os.makedirs(place, exist_ok=True)
    with manifests.opened(place, node) as directory:
        manifests.do(*directory.to_apply(given))
    return 0
