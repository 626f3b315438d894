"""The arguments of ``trikubelet exec``."""

from __future__ import annotations

from trikubelet.cli.arguments import Parser
from trikubelet.cli.options import AGENT_USAGE, add_agent_options, add_container_option, add_namespace_option


def parser() -> Parser:
    """Return the parser of the arguments of ``exec``."""
    made = Parser(
        "exec",
        "Run a command in a container. The exit code is that of the command; 127 if the command does not exist, 126 if "
        "it cannot be executed.",
        [
            ("List the processes of a container", "trikubelet exec web-node1 -- ps"),
            ("Open a shell", "trikubelet exec -it web-node1 -c app -- sh"),
            ("Feed a file to a command", "trikubelet exec -i db-node1 -- psql < dump.sql"),
        ],
        usage=f"exec [-h] [-c NAME] [-i] [-t] [-n NAME] {AGENT_USAGE} POD -- COMMAND [ARGUMENT...]",
    )
    made.add_argument("pod", metavar="POD", help="name of the pod")
    add_container_option(made)
    made.add_argument("-i", "--stdin", action="store_true", help="pass standard input to the command")
    made.add_argument("-t", "--tty", action="store_true", help="give the command a terminal")
    add_namespace_option(made)
    add_agent_options(made)
    made.add_argument("command", nargs="*", metavar="COMMAND", help="the command and its arguments, after --")
    return made
