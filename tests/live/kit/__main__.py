"""The kit by hand: ``python -m live.kit run 2`` keeps a containerd up until Enter, ``python -m live.kit sweep`` tidies.

For a developer who wants to look into a runtime while an agent talks to it; ``docs/live-tests.md`` shows how.
"""

from __future__ import annotations

import sys

from . import instance, places
from .containerd import Containerd, distribution, newer


def main(words: list[str]) -> int:
    """Carries out one command line; the exit code is returned."""
    match words:
        case ["sweep"]:
            for swept in instance.sweep_abandoned():
                print(f"swept {swept.name}")
        case ["run", ("1" | "2") as line]:
            run(line)
        case _:
            print("python -m live.kit run 1|2   or   python -m live.kit sweep", file=sys.stderr)
            return 2
    return 0


def run(line: str) -> None:
    """Keeps one containerd up until a line, or the end, of standard input."""
    daemon = Containerd(*(distribution if line == "1" else newer)())
    try:
        print(f"containerd {daemon.version}\n  endpoint       {daemon.endpoint}\n  log            {daemon.log_path}")
        print(f"  cgroup parent  {daemon.cgroup_parent}\n  run inside     {' '.join(daemon.inside(['COMMAND']))}")
        print("Enter ends it and removes all of it.", flush=True)
        sys.stdin.readline()
    finally:
        daemon.close()


try:
    sys.exit(main(sys.argv[1:]))
except places.NotInstalled as missing:
    sys.exit(str(missing))
