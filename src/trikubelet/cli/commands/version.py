"""``trikubelet version``, which is also ``trikubelet --version``; and ``kubelet --version``, by a link of that name.

kubeadm asks the kubelet of its machine for its version and reads upstream's line, which names a release of Kubernetes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import PurePath
from typing import TYPE_CHECKING

from trikubelet import __version__
from trikubelet.cli.arguments import Parser

if TYPE_CHECKING:
    from collections.abc import Sequence


def parser() -> argparse.ArgumentParser:
    """The arguments of ``version``: there are none."""
    return Parser(prog="trikubelet version", description="Print which trikubelet this is.")


def run(argv: Sequence[str]) -> int:
    """Print it. Always 0."""
    parser().parse_args(argv)
    if PurePath(sys.argv[0]).name == "kubelet":
        from trikubelet.app.report import VERSION  # noqa: PLC0415 - a report has much to import

        print(f"Kubernetes {VERSION}")
        return 0
    print(f"trikubelet {__version__}")
    return 0
