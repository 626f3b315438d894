"""The arguments of ``trikubelet get``."""

from __future__ import annotations

from trikubelet.cli.arguments import Later, Parser
from trikubelet.cli.kind_names import add_things_arguments
from trikubelet.cli.options import add_agent_options, add_selection_options


def parser() -> Parser:
    """Return the parser of the arguments of ``get``."""
    made = Parser(
        "get",
        "List pods, the node, events, images, volumes, and the ConfigMaps and Secrets of manifests (names and keys, "
        "never values), or print them as objects.",
        [
            ("List the pods of the default namespace", "trikubelet get pods"),
            ("List the pods of every namespace, with addresses", "trikubelet get pods -A -o wide"),
            ("Print one pod as YAML", "trikubelet get pod web-node1 -o yaml"),
            ("Print the phase of a pod", "trikubelet get pod web-node1 -o jsonpath={.status.phase}"),
            ("List the ConfigMaps of manifests, and the pods that use them", "trikubelet get configmaps"),
            ("List the warnings about one pod", "trikubelet get events --for=pod/web-node1"),
            ("Follow the pods that have a label", "trikubelet get pods -l app=web --watch"),
        ],
    )
    add_things_arguments(
        made,
        "what to list: pods, nodes, events, images, volumes, configmaps or secrets; "
        "several with commas (pods,nodes), or KIND/NAME",
        "only these; events and volumes also by the name of their pod",
    )
    made.add_argument(
        "-o",
        "--output",
        type=Later("cli.objects", "read_output"),
        default="",
        metavar="wide|json|yaml|name|jsonpath=TEMPLATE|custom-columns=SPEC",
        help="output format (default: a table); a SPEC is HEADING:PATH,..., such as "
        "NAME:.metadata.name,IMAGE:.spec.containers[*].image",
    )
    made.add_argument(
        "--field-selector",
        default="",
        metavar="FIELDS",
        help="only objects with these fields: status.phase!=Running,spec.nodeName=n1",
    )
    made.add_argument("--for", dest="about", default="", metavar="KIND/NAME", help="only events about this object")
    made.add_argument(
        "--sort-by",
        type=Later("cli.commands.get", "read_path"),
        metavar="FIELD",
        help="sort by a field: .metadata.creationTimestamp, .status.containerStatuses[0].restartCount",
    )
    made.add_argument("--show-labels", action="store_true", help="add a column with all labels")
    made.add_argument(
        "-L",
        "--label-columns",
        action="append",
        default=[],
        metavar="LABEL,...",
        help="add a column for each of these labels; may be repeated",
    )
    made.add_argument("--no-headers", action="store_true", help="leave out the column headings")
    made.add_argument("-w", "--watch", action="store_true", help="keep running, and print every change")
    add_selection_options(made)
    add_agent_options(made)
    return made
