"""The agent beside upstream's kubelet as a node of one cluster: results/cluster.json, docs/benchmarks-cluster.md.

    PYTHONPATH=tests python bench/cluster.py [--passes 2] [--rounds 4] [--idle-seconds 15] [--flips 3]

As root, where the live tests run (docs/live-tests.md). Ours is the single file that `make pyz` makes, run by the
distribution's Python, as on anybody's node, and one that sees no other packages: beside linters and test tools it would
load more. (A Python built without its profile takes a seventh more processor time for a pod.) One control plane,
and the two kubelets take turns on it, each on a containerd of its own that was just started; who comes first changes
from pass to pass. A turn waits until what was before it has left the machine's load, a minute at most.
`cluster_turn.py` is what is measured of each, `cluster_page.py` what is said about it. Without upstream's kubelet its
column is left out.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from cluster_page import OURS, RESULTS, UPSTREAM, as_json, page, write_page
from cluster_turn import Audit, Turn, measure
from live.kit import instance, places
from live.kit.cluster_agent import ClusterAgent
from live.kit.containerd import Containerd, newer
from live.kit.control_plane import ControlPlane
from live.kit.upstream import UpstreamKubelet
from trikubelet import __version__
from trikubelet.benchmark.machine import SETTLING_SECONDS_MAX, calibrate, this_machine, wait_settled

if TYPE_CHECKING:
    from collections.abc import Mapping

SINGLE_FILE = Path(__file__).parents[1] / "dist/trikubelet"
DISTRIBUTIONS_PYTHON = "/usr/bin/python3"


def python() -> str:
    """The distribution's interpreter where it is of the version that the file was built for, else the one we run on."""
    try:
        words = [DISTRIBUTIONS_PYTHON, "-c", "import sys; print(sys.version_info[:2])"]
        version = subprocess.check_output(words, text=True).strip()
    except (OSError, subprocess.CalledProcessError):
        version = ""
    ours: str = sys._base_executable  # type: ignore[attr-defined]
    return DISTRIBUTIONS_PYTHON if version == str(sys.version_info[:2]) else ours


class SingleFile(ClusterAgent):
    """Ours as it is delivered."""

    program = (python(), "-IS", str(SINGLE_FILE))


KUBELETS: Mapping[str, type[ClusterAgent]] = {OURS: SingleFile, UPSTREAM: UpstreamKubelet}


def take_turn(name: str, plane: ControlPlane, audit: Audit, size: Turn) -> dict[str, Any]:
    """One kubelet, from its start on an empty containerd to 110 pods; the cluster is as it was afterwards."""
    if not wait_settled(_load, len(os.sched_getaffinity(0))):
        sys.stderr.write(
            f"{name}'s turn begins on a busy machine: its load is {_load():.1f} after {SETTLING_SECONDS_MAX} s\n"
        )
    load, loop = _load(), calibrate()
    with ExitStack() as ending:
        ending.callback(plane.clear)
        containerd = Containerd(*newer())
        ending.callback(containerd.close)
        kubelet = KUBELETS[name](containerd, plane, "--v=2")
        ending.callback(kubelet.kill)  # also when it does not get so far as to be entered
        kubelet.start()
        kubelet.wait_ready()
        found = asdict(measure(kubelet, audit, size))
    return found | {
        "kubelet": name,
        "containerd": containerd.version,
        "load": [round(load, 1), round(_load(), 1)],
        "loop_ms": [round(loop / 1e6, 1), round(calibrate() / 1e6, 1)],
    }


def _version_of(program: str) -> str:
    whose = "the distribution's" if program == DISTRIBUTIONS_PYTHON else "a"
    return f"{whose} {subprocess.check_output([program, '--version'], text=True).strip()}"


def _load() -> float:
    return os.getloadavg()[0]


def run(passes: int, size: Turn) -> dict[str, Any]:
    """All turns, and what one should know to understand them."""
    began = time.monotonic()
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], text=True).strip()
    with tempfile.TemporaryDirectory() as directory:
        audit = Audit(Path(directory))
        with ControlPlane({"kube-apiserver": audit.flags}) as plane:
            there = [OURS, UPSTREAM] if (plane.programs / "kubelet").exists() else [OURS]
            turns = [
                take_turn(name, plane, audit, size)
                for number in range(passes)
                for name in (there if number % 2 == 0 else reversed(there))
            ]
    return {
        "machine": msgspec.to_builtins(this_machine()),
        "commit": commit,
        "version": __version__,
        "program": f"the single file of `make pyz`, by {_version_of(SingleFile.program[0])} without other packages",
        "when": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "took_s": round(time.monotonic() - began),
        "size": asdict(size),
        "turns": turns,
    }


def main() -> None:
    """Measure, write, print. Interrupted or terminated, it leaves nothing behind and writes nothing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=Turn.rounds)
    parser.add_argument("--idle-seconds", type=float, default=Turn.idle_seconds)
    parser.add_argument("--flips", type=int, default=Turn.flips)
    parser.add_argument("--output", type=Path, default=RESULTS, help="elsewhere than this, no page is written")
    words = parser.parse_args()
    if not SINGLE_FILE.exists():
        sys.exit(f"{SINGLE_FILE} is not there: make pyz")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        instance.sweep_abandoned()
        results = run(words.passes, Turn(words.rounds, words.idle_seconds, words.flips))
    except places.NotInstalled as missing:
        sys.exit(str(missing))
    words.output.write_text(as_json(results))
    if words.output == RESULTS:
        write_page()
    sys.stdout.write(page(results))


if __name__ == "__main__":
    main()
