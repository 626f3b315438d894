"""The arguments of ``trikubelet hollow``."""

from __future__ import annotations

from typing import Final

from trikubelet.cli.arguments import Later, Parser, count

NODES_MAX: Final = 5000
CPUS_MAX: Final = 100_000


def parser() -> Parser:
    """Return the parser of the arguments of ``hollow``."""
    made = Parser(
        "hollow",
        "Run many nodes of a cluster in one process: hollow-0, hollow-1, and so on. Each is a whole agent; its "
        "containers "
        "are only simulated. SIGTERM or Ctrl-C ends it, and the pods with it. The nodes stay in the cluster until they "
        "are "
        "deleted.",
        [
            ("Register 100 nodes", "trikubelet hollow --nodes=100 --kubeconfig=admin.conf"),
            (
                "Give each node 4 CPUs and a label",
                "trikubelet hollow --nodes=10 --kubeconfig=admin.conf --cpus=4 --node-labels=example.com/hollow=true",
            ),
        ],
        usage="hollow [-h] --nodes N (--kubeconfig FILE | --bootstrap-kubeconfig FILE) [--prefix NAME] [--first N] "
        "[--cpus N] [--memory BYTES] [--root-dir DIR] [AGENT_FLAGS]",
        notes="All other flags are the agent's (`trikubelet help agent`) and apply to every node.\n"
        "See docs/hollow-nodes.md.",
    )
    add = made.add_argument
    who = made.add_mutually_exclusive_group(required=True)
    who.add_argument("--kubeconfig", metavar="FILE", help="one user for all nodes, with the rights of each of them")
    who.add_argument(
        "--bootstrap-kubeconfig", metavar="FILE", help="a user with which each node requests its own certificate"
    )
    add("--nodes", type=count(NODES_MAX, 1), required=True, metavar="N", help="number of nodes")
    add("--prefix", default="hollow", metavar="NAME", help="beginning of the nodes' names (default: %(default)s)")
    add("--first", type=count(10**9), default=0, metavar="N", help="number of the first node (default: %(default)s)")
    add(
        "--cpus",
        type=count(CPUS_MAX, 1),
        metavar="N",
        help="CPUs that each node reports (default: those of this machine)",
    )
    add(
        "--memory",
        type=Later("cli.commands.hollow", "read_bytes"),
        metavar="BYTES",
        help="memory that each node reports, such as 64Gi (default: that of this machine)",
    )
    add("--root-dir", metavar="DIR", help="parent of the nodes' root directories (default: a temporary directory)")
    return made
