"""``trikubelet attach POD [-c NAME] [-it]``: connect to the standard streams of a container's own process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.cli import blocking
from trikubelet.cli.talking import ATTACH, talk
from trikubelet.cli.words.attach import parser

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(argv: Sequence[str]) -> int:
    """Run ``attach`` and return the exit code. Raises CommandFailed."""
    return blocking.run(talk, parser().parse_args(argv), ATTACH)
