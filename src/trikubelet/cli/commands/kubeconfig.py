"""``trikubelet kubeconfig [FILE]``: a kubeconfig for this node, printed, or written to a file that only its owner can
read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.cli import asking, blocking
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.words.kubeconfig import parser
from trikubelet.kit.private_file import write_privately

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(argv: Sequence[str]) -> int:
    """Run ``kubeconfig``. Always returns 0. Raises CommandFailed, and OSError for a file that cannot be written."""
    args = parser().parse_args(argv)
    if args.file is not None and args.file.exists():
        raise CommandFailed(f"{args.file} exists already: name another file, or remove it")
    content = blocking.run(asking.kubeconfig, asking.agent_of(args))
    if args.file is None:
        print(content.decode(), end="")
    else:
        write_privately(args.file, content)
        print(f"written: {args.file}; try `kubectl --kubeconfig={args.file} get pods`")
    return 0
