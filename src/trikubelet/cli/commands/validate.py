"""``trikubelet validate FILE…``: every fault of manifests, before an agent finds them. Needs no agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.cli.validate import validate_files
from trikubelet.cli.words.validate import parser

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(argv: Sequence[str]) -> int:
    """Run ``validate``: 0 without a fault, 1 with one. Problems come last, where they are seen."""
    args = parser().parse_args(argv)
    found = validate_files(args.files, args.hostname_override, embedded=args.runtime == "embedded")
    for line in [*([] if args.quiet else found.valid), *found.problems]:
        print(line)
    return found.exit_code
