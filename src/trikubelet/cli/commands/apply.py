"""``trikubelet apply -f FILE``: install manifests in the agent's directory.

All of them are checked first, as ``validate`` does, and against the installed ones; if one has a fault, nothing
changes. Each file is moved into place whole, readable for its owner alone. A pod or object stays in the file that has
it now, whatever the given file is called. The version before is kept (``cli.manifest_steps``).
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
    """Run ``apply`` and return the exit code. Raises CommandFailed and OSError."""
    args = parser().parse_args(argv)
    place, node = manifests.directory(args)
    given = given_manifests(args.filename, node, recursive=args.recursive)
    if not args.dry_run:
        os.makedirs(place, exist_ok=True)
    with manifests.opened(place, node) as directory:
        manifests.do(directory, directory.to_apply(given), dry_run=args.dry_run)
    return 0
