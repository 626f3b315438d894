"""The arguments of ``trikubelet bench``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict

from trikubelet.cli.arguments import Later, Parser

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MODES: Final = ("bytes", "socket", "unary", "streamed")
_PEERS: Final = ("ours", "upstream", "port", "pure")
"""``benchmark.lineup.PEERS``."""
_PODS_MAX: Final = 100_000
_CONTAINERS_PER_POD_MAX: Final = 100


def parser() -> Parser:
    """Return the parser of the arguments of ``bench``."""
    made = Parser(
        "bench",
        "Measure the relist next to upstream's and two others in Python. The ratios of the least times are what "
        "counts; "
        "the other figures show how quiet the machine was.",
        [
            ("Measure what the goals are about", "trikubelet bench relist"),
            ("Measure two sizes of nodes", "trikubelet bench relist --pods=110,1000 --churn=0,0.01"),
            ("Compare with an earlier run", "trikubelet bench relist --output=now.json --compare=before.json"),
        ],
        notes="Lists are written with commas. Any flag about cells measures every combination of their values\n"
        "instead of a grid; those that are not given have one value.",
    )
    made.add_argument("what", choices=["relist"], help="what to measure")
    cells = made.add_argument_group("which cells")
    add = cells.add_argument
    add("--grid", choices=("goals", "full"), help="the cells of the goals (default), or all, which takes 45 minutes")
    add("--pods", **_list(_whole(_PODS_MAX)), metavar="N,…", help="numbers of pods (default: 1000)")
    add(
        "--containers-per-pod",
        **_list(_whole(_CONTAINERS_PER_POD_MAX)),
        metavar="N,…",
        help="numbers of containers of each pod (default: 2)",
    )
    add(
        "--churn",
        **_list(Later("fake.control", "read_fraction")),
        metavar="F,…",
        help="fractions of the pods that change (default: 0.01)",
    )
    add(
        "--status-latency",
        **_list(Later("fake.control", "read_latency")),
        metavar="DURATION,…",
        help="delays of each status call (default: 0)",
    )
    add("--mode", **_list(_one_of(_MODES)), metavar="MODE,…", help=f"of {', '.join(_MODES)} (default: bytes,socket)")
    how = made.add_argument_group("how to measure")
    add = how.add_argument
    add(
        "--peers",
        **_list(_one_of(_PEERS)),
        default=list(_PEERS),
        metavar="NAME,…",
        help=f"of {', '.join(_PEERS)} (default: all)",
    )
    add("--rounds", type=_whole(10_000), default=15, metavar="N", help="rounds at most (default: %(default)s)")
    add("--seed", type=int, default=1, metavar="N", help="seed of the simulated pods (default: %(default)s)")
    out = made.add_argument_group("what to do with the results")
    add = out.add_argument
    add("--from", dest="source", type=Path, metavar="FILE", help="measure nothing, and use the results of another run")
    add("--output", type=Path, metavar="FILE", help="write the results as JSON")
    add("--compare", type=Path, metavar="FILE", help="compare with the results of another run")
    add("--plot", type=Path, metavar="NAME", help="draw NAME.svg and NAME.png (needs matplotlib)")
    return made


class _Once(argparse.Action):
    """Rejects a list that is given twice: only the last would count, and a user who gives two means both."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, flag: str | None = None
    ) -> None:
        """See ``argparse``."""
        if getattr(namespace, self.dest) is not self.default:
            parser.error(f"flag {flag} is given twice: write its list with commas")
        setattr(namespace, self.dest, values)


class _ListArguments(TypedDict):
    action: type[argparse.Action]
    type: Callable[[str], list[object]]


def _list(read: Callable[[str], object]) -> _ListArguments:
    """Return a flag with a list, as arguments of ``add_argument``; argparse shows no other error's message."""

    def reading(said: str) -> list[object]:
        found = [read(word) for word in said.split(",")]
        if twice := [word for word in found if found.count(word) > 1]:
            raise argparse.ArgumentTypeError(f"{twice[0]} is named twice")
        return found

    return {"action": _Once, "type": reading}


def _whole(most: int) -> Callable[[str], int]:
    def read(said: str) -> int:
        if not (said.isascii() and said.isdecimal() and 0 < int(said) <= most):
            raise argparse.ArgumentTypeError(f"{said!r} is not a whole number from 1 to {most}")
        return int(said)

    return read


def _one_of(words: Sequence[str]) -> Callable[[str], str]:
    def read(said: str) -> str:
        if said not in words:
            raise argparse.ArgumentTypeError(f"{said!r} is not one of {', '.join(words)}")
        return said

    return read
