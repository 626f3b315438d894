"""The options that verbs share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.cli.arguments import valid, valid_selector
from trikubelet.cli.failed import Misunderstood

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

DEFAULT_NAMESPACE: Final = "default"
AGENT_USAGE: Final = "[--root-dir DIR | --socket PATH]"
"""``add_agent_options`` in a usage line."""


def add_agent_options(parser: argparse.ArgumentParser) -> None:
    """``--root-dir`` and ``--socket``."""
    group = parser.add_argument_group("flags that find the agent")
    group.add_argument("--root-dir", metavar="DIR", help="root directory of the agent (default: this user's agent)")
    group.add_argument("--socket", metavar="PATH", help="socket of the agent (default: the one in its root directory)")


def add_namespace_option(parser: argparse.ArgumentParser) -> None:
    """``-n``. An empty one is the default, as with kubectl."""
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        type=lambda said: said or DEFAULT_NAMESPACE,
        default=DEFAULT_NAMESPACE,
        help="namespace of the pods (default: %(default)s)",
    )


def add_selection_options(parser: argparse.ArgumentParser) -> None:
    """``-l``, ``-A`` and ``-n``."""
    parser.add_argument(
        "-l",
        "--selector",
        type=valid_selector,
        metavar="LABELS",
        help="only objects with these labels: a=b,c!=d,e in (f,g)",
    )
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="objects of every namespace")
    add_namespace_option(parser)


def add_container_option(parser: argparse.ArgumentParser) -> None:
    """``-c``."""
    parser.add_argument(
        "-c", "--container", default="", metavar="NAME", help="name of the container (default: the pod's first one)"
    )


def add_directory_options(parser: argparse.ArgumentParser) -> None:
    """``--to`` and those that find the agent."""
    parser.add_argument(
        "--to", metavar="DIR", help="manifest directory (default: the one that the running agent reads)"
    )
    add_agent_options(parser)


def add_filename_options(parser: argparse.ArgumentParser, what: str, *, required: bool) -> None:
    """``-f`` and ``-R``. ``what`` begins the help of ``-f``."""
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        required=required,
        default=None if required else [],
        metavar="FILE",
        help=f"{what}: a file, a URL, - for standard input, or a directory, of which the files that end with .yaml, "
        ".yml or .json count; may be repeated",
    )
    parser.add_argument("-R", "--recursive", action="store_true", help="also use subdirectories of directories")


def add_dry_run_option(parser: argparse.ArgumentParser) -> None:
    """``--dry-run``, which becomes True or False."""
    parser.add_argument(
        "--dry-run",
        type=valid(_read_dry_run),
        default=False,
        metavar="client|none",
        help="client: print what would be done, and change nothing (default: none)",
    )


def _read_dry_run(said: str) -> bool:
    if said == "server":
        raise ValueError("server: there is no API server that would check the manifests (use client)")
    if said not in ("client", "none"):
        raise ValueError(f'"{said}": it is one of client, none')
    return said == "client"


def split_flags(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str] | None]:
    """Return a verb's own arguments, and the agent's flags after ``--``; None where there is none."""
    if "--" not in words:
        return words, None
    at = words.index("--")
    return words[:at], words[at + 1 :]


def refuse_socket_beside_flags(args: argparse.Namespace, flags: Sequence[str] | None) -> None:
    """Raises Misunderstood if the command names a running agent, and the flags of one to be started."""
    if args.socket and flags is not None:
        said = f"--socket={args.socket} names a running agent, but the flags after -- describe a new one"
        raise Misunderstood(f"{said}: leave out one of them")
