"""``trikubelet attach POD [-c NAME] [-it]``: to what a container's own process reads and writes, from now on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.cli import blocking
from trikubelet.cli.talking import ATTACH, talk
from trikubelet.cli.words.attach import parser

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(argv: Sequence[str]) -> int:
    """Carry out ``attach``; the exit code. Raises CommandFailed."""
    return blocking.run(talk, parser().parse_args(argv), ATTACH)
