"""The arguments of ``trikubelet rollback``."""

from __future__ import annotations

from trikubelet.cli.arguments import Parser
from trikubelet.cli.options import add_directory_options, add_dry_run_option, add_namespace_option


def parser() -> Parser:
    """Return the parser of the arguments of ``rollback``."""
    made = Parser(
        "rollback",
        "Bring back the manifest of a pod as it was before the last apply, delete or rollback. The present version is "
        "kept, so a second rollback returns to it. The last five versions of each manifest are kept as hidden files "
        "next to it (.NAME.deleted, .NAME.deleted.2, ...).",
        [
            ("Return to the version before the last apply", "trikubelet rollback web-node1"),
            ("Bring back a pod that was deleted", "trikubelet rollback web"),
            ("Show which version it would be", "trikubelet rollback web-node1 --dry-run=client"),
        ],
    )
    made.add_argument("pod", metavar="POD", help="name of the pod, as in its manifest or as `get pods` shows it")
    add_namespace_option(made)
    add_dry_run_option(made)
    add_directory_options(made)
    return made
