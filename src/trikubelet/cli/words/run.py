"""The arguments of ``trikubelet run``."""

from __future__ import annotations

import math

from trikubelet.cli.arguments import Parser, valid_span


def parser() -> Parser:
    """Return the parser of the arguments of ``run``."""
    made = Parser(
        "run",
        "Run one pod until it ends, without a running agent, and print its logs. The exit code is 0, or that of the "
        "first container that failed; 124 if the timeout expired, 125 if the pod cannot start, 130 if it was "
        "interrupted. Ctrl-C stops the pod within its grace period; a second Ctrl-C kills it.",
        [
            ("Run a pod on this machine's container runtime", "trikubelet run job.yaml"),
            (
                "Run it as plain processes, without a container runtime",
                "trikubelet run job.yaml --container-runtime-endpoint=embedded:",
            ),
            ("Stop it after ten minutes", "trikubelet run job.yaml --timeout=10m"),
        ],
    )
    made.add_argument(
        "file",
        metavar="FILE",
        help="a manifest with one pod and the ConfigMaps and Secrets it reads; - for standard input",
    )
    made.add_argument(
        "--container-runtime-endpoint",
        dest="endpoint",
        default="",
        metavar="ENDPOINT",
        help="unix:///path/to.sock, or embedded: (default: the first known socket that exists, else embedded:)",
    )
    made.add_argument(
        "--timeout",
        type=valid_span,
        default=math.inf,
        metavar="DURATION",
        help="stop the pod after this time (default: never)",
    )
    made.add_argument(
        "-v", dest="verbosity", type=int, default=-1, metavar="N", help="log verbosity of the agent inside"
    )
    return made
