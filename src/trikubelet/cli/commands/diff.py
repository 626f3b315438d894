"""``trikubelet diff -f FILE``: show the changes that ``apply`` would make in the agent's manifests. Changes nothing.

The exit code is 1 if something differs and larger after an error, as with kubectl and diff.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from trikubelet.cli import manifests
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.given_manifests import given_manifests
from trikubelet.cli.manifest_diff import diff_lines
from trikubelet.cli.manifest_steps import Put
from trikubelet.cli.words.diff import parser

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

EXIT_DIFFERENT = 1


class DiffFailed(CommandFailed):
    """The difference cannot be determined."""

    exit_code = 3


def run(argv: Sequence[str]) -> int:
    """Run ``diff`` and return the exit code. Raises CommandFailed, and BrokenPipeError."""
    args = parser().parse_args(argv)
    try:
        return _diff(args)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise DiffFailed(f"{error.filename}: {error.strerror}" if error.filename else str(error)) from error
    except CommandFailed as error:
        raise DiffFailed(str(error)) from error


def _diff(args: argparse.Namespace) -> int:
    place, node = manifests.directory(args)
    given = given_manifests(args.filename, node, recursive=args.recursive)
    with manifests.opened(place, node) as directory:
        steps = manifests.without_faults(directory.to_apply(given))
        found = []
        for step in steps:
            if isinstance(step, Put):
                before = step.path.read_bytes() if step.before is not None else b""
                names = (str(step.path) if step.before is not None else "/dev/null", str(step.path))
                found += diff_lines(before, step.text, names)
    sys.stdout.write("".join(found))
    sys.stdout.flush()
    return EXIT_DIFFERENT if found else 0
