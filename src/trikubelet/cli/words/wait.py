"""The arguments of ``trikubelet wait``."""

from __future__ import annotations

from trikubelet.cli.arguments import Later, Parser, valid_selector, valid_timeout
from trikubelet.cli.options import add_agent_options, add_namespace_option


def parser() -> Parser:
    """Return the parser of the arguments of ``wait``."""
    made = Parser(
        "wait",
        "Wait until every named pod meets a condition. Exit code 1 if the timeout expires first.",
        [
            ("Wait until a pod is ready", "trikubelet wait web-node1 --for=condition=Ready"),
            (
                "Wait up to ten minutes until a job has succeeded",
                "trikubelet wait job-node1 --for=phase=Succeeded --timeout=10m",
            ),
            ("Wait until all pods with a label are gone", "trikubelet wait -l app=web --for=delete"),
        ],
    )
    made.add_argument("names", nargs="*", metavar="POD", help="names of the pods; or use -l or --all")
    made.add_argument(
        "--for",
        dest="goal",
        required=True,
        type=Later("cli.commands.wait", "read_goal"),
        metavar="condition=TYPE[=VALUE]|phase=PHASE|jsonpath={…}=VALUE|create|delete",
        help="what to wait for",
    )
    made.add_argument(
        "--timeout",
        type=valid_timeout,
        default=30.0,
        metavar="DURATION",
        help="how long to wait, such as 5s or 2m (default: 30s; negative: without a limit)",
    )
    made.add_argument(
        "-l", "--selector", type=valid_selector, metavar="LABELS", help="wait for the pods with these labels"
    )
    made.add_argument("--all", action="store_true", help="wait for every pod of the namespace")
    add_namespace_option(made)
    add_agent_options(made)
    return made
