"""``trikubelet apply -f FILE``: put manifests where the agent finds them.

All of them are checked first, as ``validate`` does, and against what is there; with a fault nothing is touched. Each
file is moved into place whole, for its owner alone to read. What it defines stays in the file it was in before,
whatever this one is called. The version before is kept (``cli.manifest_steps``).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from trikubelet.cli import manifests
from trikubelet.cli.given_manifests import given_manifests
from trikubelet.cli.words.apply import parser

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(argv: Sequence[str]) -> int:
    """Carry out ``apply``; the exit code. Raises CommandFailed and OSError."""
    args = parser().parse_args(argv)
    place, node = manifests.directory(args)
    given = given_manifests(args.filename, node, recursive=args.recursive)
    if not args.dry_run:
        os.makedirs(place, exist_ok=True)
    with manifests.opened(place, node) as directory:
        manifests.do(directory, directory.to_apply(given), dry_run=args.dry_run)
    return 0
