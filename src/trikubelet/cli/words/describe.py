"""The arguments of ``trikubelet describe``."""

from __future__ import annotations

from trikubelet.cli.arguments import Parser
from trikubelet.cli.kind_names import add_things_arguments
from trikubelet.cli.options import add_agent_options, add_selection_options


def parser() -> Parser:
    """Return the parser of the arguments of ``describe``."""
    made = Parser(
        "describe",
        "Show everything that is known about pods, the node, events, images, volumes, and "
        "ConfigMaps and Secrets of manifests (without their values).",
        [
            ("Show why a pod is not ready", "trikubelet describe pod web-node1"),
            ("Show the pods whose names begin with web", "trikubelet describe pods web"),
            ("Show the node, its conditions and what its pods request", "trikubelet describe node"),
        ],
    )
    add_things_arguments(
        made,
        "what to describe: pods, nodes, events, images, volumes, configmaps or secrets; "
        "several with commas (pods,nodes), or KIND/NAME",
        "only these: a name, or the beginning of one (default: all)",
    )
    add_selection_options(made)
    add_agent_options(made)
    return made
