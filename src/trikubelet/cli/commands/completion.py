"""``trikubelet completion bash|zsh|fish``: a script for the shell (``cli.completion``)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from trikubelet.cli.words.completion import parser

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(argv: Sequence[str]) -> int:
    """Run ``completion``. Always returns 0."""
    args = parser().parse_args(argv)
    print("\n".join(import_module(f"trikubelet.cli.completion.{args.shell}").script()))
    return 0
