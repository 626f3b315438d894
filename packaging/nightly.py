"""`make nightly`: everything that searches for the unknown, one stage after another, and what became of it.

    python packaging/nightly.py [--only STAGE[,STAGE]] [--list] [--seeds 2000] [--fuzz-seconds 300] [--limit live=200] …

A stage is a command with the longest it may take. It goes on after one that failed. Each leaves its log in
``build/nightly/<stage>.log``, where those of the run before are removed first. Before and after each the summary
(`nightly_summary.py`) is rewritten, as ``build/nightly.json`` and ``build/nightly.txt``, so that also who kills this
process finds what had been drawn for the stage that ran. Nothing is run twice until it holds, so that ``reruns`` is
always 0. The exit code is 1 unless every stage held that was chosen. Who ends it (Ctrl-C, SIGTERM, SIGHUP, a terminal
that hangs up) ends the stage, whose result and the summary are written before it ends itself.

Where a test draws examples, shuffles or an order, the number they come from is drawn here, handed on, and written down:
`Stage.seeds`, and in the command, which draws the same again. Left to chance is which process runs which of the tests
that several share, how long the mutator goes on from its seed, and what waits for a real clock (processes, ``live``).
How many tests a stage ran is read by `counted_tests.py`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any

from counted_tests import count
from nightly_summary import FAILED, HELD, INTERRUPTED, LATE, Result, Stage, summarize, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType

TOP = Path(__file__).resolve().parent.parent
BUILD = TOP / "build"
LOGS = BUILD / "nightly"
ATTENDED = TOP / "packaging" / "attended.py"

END_SECONDS_MAX = 90.0
"""For a stage that was told to end: attended.py gives it a part of this, and kills what is left in the rest."""
LOOK_SECONDS = 0.2
"""So often it is looked whether a signal came while a stage runs."""
FUZZED = "http_fuzz.json"
"""What the fuzzing leaves beside the logs."""

NOT_INSTALLED = "not installed"


class Interruption:
    """Which signals told this process to end, from entering to leaving. They are noted and raise nothing, so that what
    was begun is done; whoever goes from one step to the next looks. One that is ignored (by nohup) stays so.

    A terminal that hangs up tells the leader of its session alone. A shell hands that on; where make is the leader, it
    waits for us and does not. So that is looked at, too, by who is in the foreground and would be told by a shell."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self._before: dict[int, Any] = {}
        self._terminal: int | None = None
        self._in_foreground = False

    def __enter__(self) -> Interruption:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        if signal.SIGHUP in self._before:
            with suppress(OSError):  # there is none
                self._terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
        return self

    def __exit__(self, *_: object) -> None:
        self._leave_terminal()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: FrameType | None) -> None:
        self.numbers.append(number)

    def told(self) -> bool:
        """Whether one has come, or the terminal has hung up."""
        if self._terminal is not None:
            try:
                self._in_foreground = os.tcgetpgrp(self._terminal) == os.getpgrp()
            except OSError:  # it has hung up
                self._leave_terminal()
                if self._in_foreground:
                    self.numbers.append(signal.SIGHUP)
        return bool(self.numbers)

    def _leave_terminal(self) -> None:
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None

    @property
    def of_terminal(self) -> bool:
        """The terminal interrupts a stage, too, and nobody has to hand that on."""
        return self.numbers[:1] == [signal.SIGINT]


def plan(words: argparse.Namespace, draw: SystemRandom) -> list[Stage]:
    """All stages, in their order."""
    order, examples = (draw.randrange(2, 2**32) for _ in range(2))
    first, mutations, conversations, stalls = (draw.randrange(2**31) for _ in range(4))
    shuffled = f'-m "" -p randomly --randomly-seed={order}'
    chance = {"TRIKUBELET_EXPLORE": str(order), "PYTHONHASHSEED": str(order)}
    drawn = {"PROPTEST_RNG_SEED": str(examples)}
    fuzz = [f"SECONDS={words.fuzz_seconds}", f"EXAMPLES={words.examples}", f"CONVERSATIONS={words.conversations}"]
    fuzz += [f"FUZZ=--seed={conversations} --results=build/nightly/{FUZZED}"]
    stages = [
        Stage("lint", ("make", "lint"), 20),
        Stage("order", ("make", "test", f"PYTEST={shuffled}"), 30, chance, {"order": order}),
        Stage("stalled", ("make", "test-stalled", f"STALLS=--seed={stalls}"), 40, seeds={"stalls": stalls}),
        Stage("cargo", ("cargo", "test", "--locked"), 20, drawn, {"examples": examples}),
        Stage("otel", ("make", "test-otel"), 10),
        Stage(
            "seeds", ("make", "sim", f"SEEDS={words.seeds}", f"SIM=--first={first}"), 60, seeds={"first seed": first}
        ),
        Stage(
            "fuzz",
            ("make", "fuzz", *fuzz),
            60 + words.fuzz_seconds / 60,
            {**drawn, "TRIKUBELET_EXPLORE": str(examples), "RELIST_FUZZ_SEED": str(mutations)},
            {"mutations": mutations, "examples": examples, "conversations": conversations},
        ),
        Stage("smoke", ("make", "smoke"), 15),
        Stage("docs", ("make", "docs"), 10),
        Stage("live-core", ("make", "live-core"), 20),
        Stage("live", ("make", "live"), 180),
        Stage("vm", ("make", "vm-test"), 120),
        *(Stage(f"node-{one}", ("make", "node-conformance", f"VERSION={one}"), 180) for one in node_suites()),
    ]
    return [_limited(stage, words.limit) for stage in stages]


def node_suites() -> list[str]:
    """Return the versions of Kubernetes whose node suite is run."""
    return sorted(path.stem for path in (TOP / "packaging" / "node-conformance").glob("1.*.mod"))


def _limited(stage: Stage, limits: Mapping[str, float]) -> Stage:
    minutes = limits.get(stage.name, stage.minutes_max)
    return Stage(stage.name, stage.command, minutes, stage.environment, stage.seeds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; the exit code."""
    words = _parse(arguments)
    planned = plan(words, SystemRandom())
    known = [stage.name for stage in planned]
    if unknown := sorted({*words.only, *words.limit} - set(known)):
        sys.exit(f"nightly: there is no stage {', '.join(unknown)}: name some of {', '.join(known)}")
    stages = [stage for stage in planned if not words.only or stage.name in words.only]
    if words.list:
        for stage in stages:
            print(f"{stage.name:10} {stage.minutes_max:4.0f} min  {stage.line}")
        return 0
    with Interruption() as interruption:
        _forget(planned)
        line = shlex.join(["python", "packaging/nightly.py", *(sys.argv[1:] if arguments is None else arguments)])
        not_chosen = [stage.name for stage in planned if stage not in stages]
        return run_all(stages, {"command": line, "not_chosen": not_chosen}, interruption)


def run_all(stages: Sequence[Stage], asked: Mapping[str, Any], interruption: Interruption) -> int:
    """Run one after another until a signal comes, and keep the summary, which begins with ``asked``; the exit code."""
    began, date = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    about: dict[str, Any] = {"commit": _commit(), "date": date, "cores": os.cpu_count(), "versions": versions()}
    about = {**asked, **about}
    results: list[Result] = []
    _keep(about, began, stages, results)  # not that of the run before, whatever becomes of this one
    for stage in stages:
        if not interruption.told():
            _keep(about, began, stages, results, stage)
        if interruption.told():
            break
        _say(f"nightly: {stage.name}: {stage.line}")
        results.append(run(stage, interruption))
        if NOT_INSTALLED in about["versions"].values():  # stages install what they need
            about["versions"] = versions()
        _keep(about, began, stages, results)
        _say(f"nightly: {stage.name}: {results[-1].outcome} after {results[-1].seconds:.0f} s")
    summary = _keep(about, began, stages, results)
    _say(f"\n{table(summary)}")
    return 0 if summary["held"] else 1


def _forget(planned: Sequence[Stage]) -> None:
    """What the run before left, of these stages: beside the summary of this one it would be taken for its own."""
    LOGS.mkdir(parents=True, exist_ok=True)
    for name in (FUZZED, *(f"{stage.name}.{kind}" for stage in planned for kind in ("log", "xml"))):
        (LOGS / name).unlink(missing_ok=True)


def _say(text: str) -> None:
    with suppress(OSError):  # nobody reads it any more: a terminal that has hung up, or the end of a pipe
        print(text, flush=True)


def _keep(
    about: Mapping[str, Any],
    began: float,
    stages: Sequence[Stage],
    results: Sequence[Result],
    begun: Stage | None = None,
) -> dict[str, Any]:
    """Write the summary of what has been run until now."""
    summary = summarize({**about, "seconds": round(time.monotonic() - began)}, stages, results, begun)
    _write(BUILD / "nightly.json", json.dumps(summary, indent=1) + "\n")
    _write(BUILD / "nightly.txt", table(summary))
    return summary


def _write(path: Path, text: str) -> None:
    """Beside it and renamed: who reads it finds a whole one."""
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    def names(text: str) -> list[str]:
        found = [name for name in text.split(",") if name]
        if not found:
            raise argparse.ArgumentTypeError("it names no stage")
        return found

    def limits(text: str) -> dict[str, float]:
        found = {}
        for part in names(text):
            name, _, minutes = part.partition("=")
            with suppress(ValueError):
                found[name] = float(minutes)
            if not (name and 0 < found.get(name, 0) < math.inf):
                raise argparse.ArgumentTypeError(f"{part!r} is not STAGE=MINUTES with a number above 0")
        return found

    def number(text: str) -> int:
        if not (text.isdecimal() and int(text)):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
        return int(text)

    parser = argparse.ArgumentParser(prog="nightly", description="Everything that searches for the unknown.")
    parser.add_argument("--list", action="store_true", help="say what the stages are, and run none")
    parser.add_argument("--only", type=names, default=[], metavar="STAGE[,STAGE]", help="these stages alone")
    parser.add_argument("--limit", type=limits, default={}, metavar="STAGE=MINUTES[,…]", help="they may take so long")
    parser.add_argument("--seeds", type=number, default=2000, metavar="N", help="how many fresh seeds (2000)")
    parser.add_argument("--fuzz-seconds", type=number, default=300, metavar="S", help="of a processor's time (300)")
    parser.add_argument("--examples", type=number, default=20_000, metavar="N", help="random cases of lists (20000)")
    parser.add_argument("--conversations", type=number, default=5000, metavar="N", help="damaged ones (5000)")
    return parser.parse_args(arguments)


def run(stage: Stage, interruption: Interruption) -> Result:
    """Run a stage to its end, to its limit, or until a signal comes."""
    log, report = LOGS / f"{stage.name}.log", LOGS / f"{stage.name}.xml"
    options = f"{os.environ.get('PYTEST_ADDOPTS', '')} --junitxml={shlex.quote(str(report))}"
    environment = {**os.environ, "PYTEST_ADDOPTS": options.strip(), **stage.environment}
    began = time.monotonic()
    with log.open("wb") as output:
        command = [sys.executable, str(ATTENDED), *stage.command]
        process = subprocess.Popen(
            command, cwd=TOP, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        outcome = _outcome(process, began + stage.minutes_max * 60, interruption)
    said, reported = (path.read_text("utf-8", "replace") if path.exists() else "" for path in (log, report))
    return Result(stage, outcome, process.wait(), time.monotonic() - began, count(said, reported, TOP))


def _outcome(process: subprocess.Popen[bytes], deadline: float, interruption: Interruption) -> str:
    """Of a stage; it has ended then."""
    while process.poll() is None and time.monotonic() < deadline and not interruption.told():
        with suppress(subprocess.TimeoutExpired):
            process.wait(LOOK_SECONDS)
    code = process.poll()
    if code is not None:
        return HELD if code == 0 else INTERRUPTED if interruption.numbers else FAILED
    outcome = INTERRUPTED if interruption.numbers else LATE
    if not interruption.of_terminal:
        process.terminate()
    for end in (process.terminate, process.kill):  # it may have been no terminal
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS_MAX)
            return outcome
        end()
    process.wait()
    return outcome


# ---- of what, on what ----------------------------------------------------------------------------------------------


def versions() -> dict[str, str]:
    """Of what was run and of what it was run on; where a program is not there, that."""
    places = (TOP / "tests/live/kit/places.py").read_text()
    module = (TOP / "packaging/control-plane/go.mod").read_text()

    def pinned(name: str) -> str:
        found = re.search(rf'^{name}_VERSION = "(.+)"$', places, re.MULTILINE)
        return found[1] if found else "not pinned"

    kubernetes = re.search(r"^\s*k8s\.io/kubernetes v(\S+)", module, re.MULTILINE)
    return {
        "python": platform.python_version(),
        "cargo": _said("cargo", "--version"),
        "rustc": _said("rustc", "--version"),
        "kernel": platform.release(),
        "containerd 1": _said("containerd", "--version"),
        "runc of containerd 1": _said("runc", "--version"),
        "containerd 2": pinned("CONTAINERD"),
        "runc of containerd 2": pinned("RUNC"),
        "CRI-O": pinned("CRIO"),
        "Kubernetes": kubernetes[1] if kubernetes else "not pinned",
    }


def _said(program: str, word: str) -> str:
    """The first line of what a program says of itself."""
    found = shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"]))
    if found is None:
        return NOT_INSTALLED
    with suppress(OSError, subprocess.SubprocessError):
        text = subprocess.run([found, word], capture_output=True, text=True, timeout=60, check=False, cwd=TOP).stdout
        if text.strip():
            return text.strip().splitlines()[0]
    return "says nothing"


def _commit() -> str:
    """With a mark if the checkout holds more than that."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=TOP, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + (" and changes" if git("status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


if __name__ == "__main__":
    sys.exit(main())
