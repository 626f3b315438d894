"""``trikubelet man``: the manual page (``cli.manual``).

trikubelet man | man -l -
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.cli.manual import page
from trikubelet.cli.words.man import parser

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(argv: Sequence[str]) -> int:
    """Run ``man``. Always returns 0."""
    parser().parse_args(argv)
    print("\n".join(page()))
    return 0
