"""Random histories told to upstream's PLEG and to ours, who must tell the same events.

    python bench/peers/compare_histories.py [--seeds N] [--first SEED]      compare; ends with 1 at the first difference
    python bench/peers/compare_histories.py --record FILE [--seeds N]       and keep upstream's answers for the tests

Needs Go, for bench/peers/build.sh. Upstream's peer is given each step as two files, ours the same bytes. Every history
ends with nothing left, so that one process tells them all.
"""

from __future__ import annotations

import argparse
import json
import lzma
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from trikubelet.benchmark.peers.histories import generate
from trikubelet.benchmark.peers.ours import RecordObserver
from trikubelet.core.relist import DecodeError, Relist

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Ask = Callable[[dict[str, Any]], Any]

Outcome = list[list[str]] | None
"""What was told, sorted: pod, type, id; None when the lists could not be read."""


def main() -> int:
    """0 when all told the same."""
    flags = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    flags.add_argument("--seeds", type=int, default=1000)
    flags.add_argument("--first", type=int, default=0)
    flags.add_argument("--record", type=Path)
    chosen = flags.parse_args()
    program = subprocess.run([Path(__file__).parent / "build.sh"], check=True, capture_output=True, text=True).stdout
    if program.strip() == "no-go":
        print("There is no Go here, and so no upstream to compare with.", file=sys.stderr)
        return 1
    kept: list[list[list[Any]]] = []
    steps, events = 0, 0
    with upstream(program.strip()) as ask, tempfile.TemporaryDirectory() as directory:
        for seed in range(chosen.first, chosen.first + chosen.seeds):
            ours = RecordObserver(Relist())
            history = []
            for number, step in enumerate(generate(seed)):
                sandboxes, containers = step.lists(Random(f"{seed} {number}"))
                theirs = told_by_upstream(ask, Path(directory), sandboxes, containers, step.fail)
                told = told_by_us(ours, sandboxes, containers, step.fail)
                if theirs != told:
                    print(f"seed {seed}, step {number}\nupstream {theirs}\nours     {told}\n{step}")
                    return 1
                history.append([*step, theirs])
                steps, events = steps + 1, events + len(theirs or ())
            if chosen.record:
                kept.append(history)
    print(f"{chosen.seeds} histories, {steps} steps, {events} events: all the same")
    if chosen.record:
        chosen.record.write_bytes(lzma.compress(json.dumps(kept).encode()))
    return 0


def told_by_us(observer: RecordObserver, sandboxes: bytes, containers: bytes, fail: list[str]) -> Outcome:
    """The outcome of a step with our relist."""
    try:
        return sorted(list(event) for event in observer.observe([sandboxes], [containers], fail))
    except DecodeError:
        return None


def told_by_upstream(ask: Ask, directory: Path, sandboxes: bytes, containers: bytes, fail: list[str]) -> Outcome:
    """The outcome of a step with upstream's PLEG."""
    paths = [directory / "sandboxes", directory / "containers"]
    for path, reply in zip(paths, (sandboxes, containers), strict=True):
        path.write_bytes(reply)
    answer = ask({"do": "observe", "sandboxes": [str(paths[0])], "containers": [str(paths[1])], "fail": fail})
    events = [[event["pod"], event["type"], event["id"]] for event in ask({"do": "events"})]
    return None if answer["error"] else events


@contextmanager
def upstream(program: str) -> Iterator[Ask]:
    """The peer in Go, for the length of the block. What it logs of inspections that were to fail is left out."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([program, "--bytes"], text=True, **pipes) as peer:
        assert peer.stdin
        assert peer.stdout

        def ask(question: dict[str, Any]) -> Any:
            peer.stdin.write(json.dumps(question) + "\n")
            peer.stdin.flush()
            return json.loads(peer.stdout.readline())

        yield ask
        peer.stdin.close()


if __name__ == "__main__":
    sys.exit(main())
