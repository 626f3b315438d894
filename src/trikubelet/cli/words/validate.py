"""The arguments of ``trikubelet validate``."""

from __future__ import annotations

import os

from trikubelet.cli.arguments import Parser


def parser() -> Parser:
    """Return the parser of the arguments of ``validate``."""
    made = Parser(
        "validate",
        "Check manifests and report every error with file, line and field. Exit code 1 if there is one. Needs no "
        "agent.",
        [
            ("Check a manifest", "trikubelet validate web.yaml"),
            ("Check all manifests of a directory", "trikubelet validate /etc/kubernetes/manifests"),
            ("Check that the embedded runtime can run it", "trikubelet validate --for=embedded web.yaml"),
            ("Check standard input", "cat web.yaml | trikubelet validate -"),
        ],
    )
    made.add_argument(
        "files", nargs="+", metavar="FILE", help="a manifest, a directory of manifests, or - for standard input"
    )
    made.add_argument("-q", "--quiet", action="store_true", help="print problems only, and nothing for a valid file")
    made.add_argument(
        "--for",
        dest="runtime",
        choices=["embedded"],
        default="",
        help="also report fields that this container runtime rejects or ignores",
    )
    made.add_argument(
        "--hostname-override",
        metavar="NAME",
        default=os.uname().nodename.lower(),
        help="name of the node, which is appended to the names of pods (default: %(default)s)",
    )
    return made
