"""The kit by hand: ``python -m live.kit run 2`` keeps a containerd up until Enter, ``run crio`` a CRI-O, ``cluster`` a
control plane; ``record`` asks one what tests/recorded keeps, ``surface`` records what pods show on upstream's kubelet,
``conformance`` runs upstream's own tests on a cluster, ``node-conformance`` upstream's node suite.

For a developer who wants to look into one while an agent talks to it; ``sweep`` tidies what test runs left behind that
were killed, and ``sweep --expect-nothing`` fails when there was anything, for whoever ends a run that was not.
``docs/live-tests.md`` shows how.
"""

from __future__ import annotations

import sys

from . import conformance, instance, marked, node_conformance, places, surface_run
from .containerd import Containerd, distribution, newer
from .control_plane import ControlPlane
from .crio import Crio, installed
from .daemon import Daemon
from .record import record


def main(words: list[str]) -> int:
    """Carries out one command line; the exit code is returned."""
    match words:
        case ["sweep"]:
            sweep()
        case ["sweep", "--expect-nothing"]:
            return 1 if sweep() else 0
        case ["run", "1"]:
            run(Containerd(*distribution()))
        case ["run", "2"]:
            run(Containerd(*newer()))
        case ["run", "crio"]:
            run(Crio(installed()))
        case ["cluster"]:
            cluster()
        case ["record"]:
            with ControlPlane() as plane:
                record(plane)
        case ["conformance", *focus] if len(focus) <= 1:
            return 0 if conformance.record(*focus) else 1
        case ["surface"]:
            surface_run.record()
        case ["node-conformance", *options]:
            return node_conformance.main(options)
        case _:
            known = ("run 1|2|crio", "cluster", "record", "surface", "conformance [PATTERN]", "node-conformance --help")
            known = (*known, "sweep [--expect-nothing]")
            print(f"python -m live.kit {'   or   '.join(known)}", file=sys.stderr)
            return 2
    return 0


def sweep() -> list[str]:
    """Takes away what nobody owns any more, and tells of it line by line; the names are returned."""
    swept = [*(one.name for one in instance.sweep_abandoned()), *marked.sweep_abandoned()]
    for name in swept:
        print(f"swept {name}", flush=True)
    return swept


def run(daemon: Daemon) -> None:
    """Keeps a runtime up until a line, or the end, of standard input."""
    try:
        print(f"{daemon.name} {daemon.version}\n  endpoint       {daemon.endpoint}\n  log            {daemon.log_path}")
        print(f"  cgroup parent  {daemon.cgroup_parent}\n  run inside     {' '.join(daemon.inside(['COMMAND']))}")
        print("Enter ends it and removes all of it.", flush=True)
        sys.stdin.readline()
    finally:
        daemon.close()


def cluster() -> None:
    """Keeps a control plane up until a line, or the end, of standard input."""
    with ControlPlane() as plane:
        print(f"API server {plane.url}\n  export KUBECONFIG={plane.kubeconfig} PATH={plane.programs}:$PATH")
        print(f"  logs {plane.directory}/*.log\nEnter ends it and removes all of it.", flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (places.NotInstalled, TimeoutError) as told:
        sys.exit(str(told))
