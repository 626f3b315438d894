"""The participants that are measured side by side, and how each is started: trikubelet, upstream's PLEG, and two in
plain Python."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trikubelet.benchmark.results import OURS, PORT, PURE, UPSTREAM
from trikubelet.cri.round import UNDER_WAY_MAX
from trikubelet.model.bounds import Bounds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SOURCES: Final = Path(__file__).resolve().parents[3] / "bench" / "peers"
NO_GO: Final = "no-go"
PEERS: Final = (OURS, UPSTREAM, PORT, PURE)


@dataclass(frozen=True, slots=True)
class Peer:
    """One of them. It inspects ``pods_at_once`` at the same time, and of each asks for the statuses of
    ``calls_at_once`` sandboxes and containers. ``left_out``: why it cannot take part; the command is empty then."""

    name: str
    command: tuple[str, ...] = ()
    pods_at_once: int = 1
    calls_at_once: int = 1
    left_out: str = ""


def environment() -> Mapping[str, str]:
    """Return the environment of our Python processes: they find the modules we have found, wherever those are."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def lineup(names: Sequence[str], build: Path = _SOURCES / "build.sh") -> list[Peer]:
    """The peers of these names; ``build`` is the program that builds upstream's, which takes minutes once."""
    return [_upstream(build) if name == UPSTREAM else _python(name) for name in names]


def _python(name: str) -> Peer:
    assert name in PEERS
    command = (sys.executable, "-m", f"trikubelet.benchmark.peers.{name}")
    if name == PORT:  # pod after pod and call after call, as upstream
        return Peer(name, command)
    return Peer(name, command, Bounds().inspections_max, UNDER_WAY_MAX)


def _upstream(build: Path) -> Peer:
    if not build.exists():
        return Peer(UPSTREAM, left_out="its sources are in a checkout of trikubelet only")
    built = subprocess.run([build], capture_output=True, text=True, check=False)
    said = built.stdout.strip()
    if built.returncode != 0:
        last = built.stderr.strip().rpartition("\n")[2]
        return Peer(UPSTREAM, left_out=f"it could not be built: {last}")
    if said == NO_GO:
        return Peer(UPSTREAM, left_out="no Go")
    return Peer(UPSTREAM, (said,))
