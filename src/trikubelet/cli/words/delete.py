"""The arguments of ``trikubelet delete``."""

from __future__ import annotations

from trikubelet.cli.arguments import Parser
from trikubelet.cli.options import (
    add_directory_options,
    add_dry_run_option,
    add_filename_options,
    add_selection_options,
)


def parser() -> Parser:
    """Return the parser of the arguments of ``delete``."""
    made = Parser(
        "delete",
        "Remove manifests from the agent's manifest directory. The agent then stops their pods, each within its grace "
        "period. The files are kept as hidden copies, for `trikubelet rollback`.",
        [
            ("Stop a pod and remove its manifest", "trikubelet delete pod web-node1"),
            ("Show which file would be removed", "trikubelet delete pod web-node1 --dry-run=client"),
            ("Stop all pods that have a label", "trikubelet delete pods -l app=web"),
            ("Remove everything that a manifest defines", "trikubelet delete -f web.yaml"),
        ],
    )
    made.add_argument(
        "names", nargs="*", metavar="pod NAME", help="names of pods, as in their manifests or as `get pods` shows them"
    )
    add_filename_options(made, "remove what these manifests define", required=False)
    made.add_argument("--all", action="store_true", help="all pods of the namespace that manifests define")
    add_selection_options(made)
    add_dry_run_option(made)
    add_directory_options(made)
    return made
