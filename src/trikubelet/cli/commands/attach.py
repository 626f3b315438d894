"""``trikubelet attach POD [-c NAME] [-it]``: to what a container's own process reads and writes, from now on."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from trikubelet.cli import interruptible
from trikubelet.cli.arguments import Parser
from trikubelet.cli.talking import ATTACH, add_talking_options, talk

if TYPE_CHECKING:
    from collections.abc import Sequence


def parser() -> argparse.ArgumentParser:
    """The arguments of ``attach``."""
    made = Parser(
        prog="trikubelet attach",
        description="See what a container's own process writes from now on and, with -i, let it read what you write.",
    )
    add_talking_options(made)
    return made


def run(argv: Sequence[str]) -> int:
    """Carry out ``attach``; the exit code. Raises CommandFailed."""
    return interruptible.run(talk, parser().parse_args(argv), ATTACH)
