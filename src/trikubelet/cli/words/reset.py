"""The arguments of ``trikubelet reset``."""

from __future__ import annotations

from typing import Final

from trikubelet.cli.arguments import Parser, valid_span

KEEP_UNKNOWN_PODS: Final = "--keep-unknown-pods"
TIMEOUT_SECONDS: Final = 180.0
"""Six times the default grace period of a pod."""


def parser() -> Parser:
    """Return the parser of the arguments of ``reset``."""
    made = Parser(
        "reset",
        "Stop every pod on this node's container runtime, each within its grace period, and remove the volumes, "
        "directories "
        "and logs of pods. No kubelet or agent may use that runtime, and no agent may run in that root directory. Pods "
        "that the root directory does not know are named first. Credentials and configuration are kept.",
        [
            ("Stop and remove all pods of this node", "trikubelet reset"),
            ("Do so for an agent with another root directory", "trikubelet reset --root-dir=/srv/agent --timeout=10m"),
        ],
        usage=f"reset [-h] [--root-dir DIR] [{KEEP_UNKNOWN_PODS}] [--timeout DURATION] [-- AGENT_FLAGS]",
    )
    made.add_argument(
        "--root-dir",
        default="",
        metavar="DIR",
        help="root directory of the agent (default: where the other commands find it)",
    )
    made.add_argument(
        KEEP_UNKNOWN_PODS,
        action="store_true",
        help="end only the pods that the root directory knows, and leave those of other node agents alone",
    )
    made.add_argument(
        "--timeout",
        type=valid_span,
        default=TIMEOUT_SECONDS,
        metavar="DURATION",
        help="how long all of it may take (default: 3m)",
    )
    return made
