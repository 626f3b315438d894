"""`make nightly`: everything that searches for the unknown, one stage after another, and what became of it.

    python packaging/nightly.py [--only STAGE[,STAGE]] [--list] [--seeds 2000] [--fuzz-seconds 300] [--limit live=200] …

A stage is a command with the longest it may take. It goes on after one that failed. Each leaves its log in
``build/nightly/<stage>.log``, and after each the summary is written anew, as ``build/nightly.json`` and
``build/nightly.txt``: what held and what did not, seconds, how many tests passed, failed and were skipped, the names of
those that failed, seeds, and of what and on what it was run. Nothing is run twice until it holds, so that ``reruns`` is
always 0. The exit code is 1 unless every stage held. Who ends it (Ctrl-C, SIGTERM, SIGHUP) ends the stage, whose result
and the summary are written before it ends itself.

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
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any

from counted_tests import Counts, count

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
FAILED_TOLD_MAX = 50
"""Of a stage, in the table; all are in the JSON."""

NOT_INSTALLED = "not installed"
HELD, FAILED, LATE, INTERRUPTED = "held", "failed", "ended at its limit", "interrupted"


@dataclass(frozen=True)
class Stage:
    """What is run: words for a process in the checkout, and what is set beside its environment."""

    name: str
    command: tuple[str, ...]
    minutes_max: float
    environment: Mapping[str, str] = field(default_factory=dict)
    seeds: Mapping[str, int] = field(default_factory=dict)
    """What was drawn for it."""

    @property
    def line(self) -> str:
        """For a shell: what is set, and the command."""
        return shlex.join([*(f"{name}={value}" for name, value in self.environment.items()), *self.command])


@dataclass(frozen=True)
class Result:
    """What became of a stage."""

    stage: Stage
    outcome: str
    exit_code: int
    seconds: float
    counts: Counts


class Interruption:
    """Which signals told this process to end, from entering to leaving. They are noted and raise nothing, so that what
    was begun is done; whoever goes from one step to the next looks. One that is ignored (by nohup) stays so."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: FrameType | None) -> None:
        self.numbers.append(number)

    @property
    def of_terminal(self) -> bool:
        """The terminal interrupts a stage, too, and nobody has to hand that on."""
        return self.numbers[:1] == [signal.SIGINT]


def plan(words: argparse.Namespace, draw: SystemRandom) -> list[Stage]:
    """All stages, in their order."""
    order, examples = (draw.randrange(2, 2**32) for _ in range(2))
    first, mutations, conversations = (draw.randrange(2**31) for _ in range(3))
    shuffled = f'-m "" -p randomly --randomly-seed={order}'
    chance = {"TRIKUBELET_EXPLORE": str(order), "PYTHONHASHSEED": str(order)}
    drawn = {"PROPTEST_RNG_SEED": str(examples)}
    fuzz = [f"SECONDS={words.fuzz_seconds}", f"EXAMPLES={words.examples}", f"CONVERSATIONS={words.conversations}"]
    fuzz += [f"FUZZ=--seed={conversations} --results=build/nightly/http_fuzz.json"]
    stages = [
        Stage("lint", ("make", "lint"), 20),
        Stage("order", ("make", "test", f"PYTEST={shuffled}"), 30, chance, {"order": order}),
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
        Stage("live-core", ("make", "live-core"), 20),
        Stage("live", ("make", "live"), 180),
    ]
    return [_limited(stage, words.limit) for stage in stages]


def _limited(stage: Stage, limits: Mapping[str, float]) -> Stage:
    minutes = limits.get(stage.name, stage.minutes_max)
    return Stage(stage.name, stage.command, minutes, stage.environment, stage.seeds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; the exit code."""
    words = _parse(arguments)
    stages = plan(words, SystemRandom())
    known = [stage.name for stage in stages]
    if unknown := sorted({*words.only, *words.limit} - set(known)):
        sys.exit(f"nightly: there is no stage {', '.join(unknown)}: name some of {', '.join(known)}")
    stages = [stage for stage in stages if not words.only or stage.name in words.only]
    if words.list:
        for stage in stages:
            print(f"{stage.name:10} {stage.minutes_max:4.0f} min  {stage.line}")
        return 0
    with Interruption() as interruption:
        return run_all(stages, interruption)


def run_all(stages: Sequence[Stage], interruption: Interruption) -> int:
    """Run one after another until a signal comes, and keep the summary; the exit code."""
    LOGS.mkdir(parents=True, exist_ok=True)
    began, date = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    about: dict[str, Any] = {"commit": _commit(), "date": date, "cores": os.cpu_count(), "versions": versions()}
    results: list[Result] = []
    summary = _keep(about, began, stages, results)  # not that of the run before, whatever becomes of this one
    for stage in stages:
        if interruption.numbers:
            break
        print(f"nightly: {stage.name}: {stage.line}", flush=True)
        results.append(run(stage, interruption))
        if NOT_INSTALLED in about["versions"].values():  # stages install what they need
            about["versions"] = versions()
        summary = _keep(about, began, stages, results)
        print(f"nightly: {stage.name}: {results[-1].outcome} after {results[-1].seconds:.0f} s", flush=True)
    print(f"\n{table(summary)}", end="")
    return 0 if summary["held"] else 1


def _keep(about: Mapping[str, Any], began: float, stages: Sequence[Stage], results: Sequence[Result]) -> dict[str, Any]:
    """Write the summary of what has been run until now."""
    summary = summarize({**about, "seconds": round(time.monotonic() - began)}, stages, results)
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
    report.unlink(missing_ok=True)
    options = f"{os.environ.get('PYTEST_ADDOPTS', '')} --junitxml={shlex.quote(str(report))}"
    environment = {**os.environ, "PYTEST_ADDOPTS": options.strip(), **stage.environment}
    began = time.monotonic()
    with log.open("wb") as output:
        command = [sys.executable, str(ATTENDED), *stage.command]
        process = subprocess.Popen(
            command, cwd=TOP, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        outcome = _outcome(process, began + stage.minutes_max * 60, interruption)
    read = (path.read_text("utf-8", "replace") if path.exists() else "" for path in (log, report))
    return Result(stage, outcome, process.wait(), time.monotonic() - began, count(*read))


def _outcome(process: subprocess.Popen[bytes], deadline: float, interruption: Interruption) -> str:
    """Of a stage; it has ended then."""
    while process.poll() is None and time.monotonic() < deadline and not interruption.numbers:
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


# ---- the summary ---------------------------------------------------------------------------------------------------


def summarize(about: Mapping[str, Any], stages: Sequence[Stage], results: Sequence[Result]) -> dict[str, Any]:
    """What is written as JSON: ``about`` and every stage, those that were not run, too."""
    rows: list[dict[str, Any]] = []
    for result in results:
        stage = result.stage
        row = {"stage": stage.name, "outcome": result.outcome, "exit_code": result.exit_code}
        row |= {"seconds": round(result.seconds), **asdict(result.counts), "reruns": 0, "seeds": dict(stage.seeds)}
        row |= {"command": stage.line, "log": f"build/nightly/{stage.name}.log"}
        rows.append(row)
    left = [stage.name for stage in stages[len(results) :]]
    held = not left and all(result.outcome == HELD for result in results)
    return {"held": held, **about, "stages": rows, "not_run": left}


def table(summary: Mapping[str, Any]) -> str:
    """The summary as it is read."""
    lines = [
        f"nightly of {summary['commit']}",
        f"{summary['date']}, {summary['cores']} cores, {summary['seconds']} s in all",
        "",
    ]
    columns = ("stage", "seconds", "passed", "failed", "skipped", "outcome")
    lines.append("{:<10} {:>8} {:>8} {:>7} {:>8}  {}".format(*columns))
    for row in summary["stages"]:
        counts = ["-" if row[name] is None else row[name] for name in ("passed", "failed", "skipped")]
        cells = (row["stage"], row["seconds"], *counts, row["outcome"])
        lines.append("{:<10} {:>8} {:>8} {:>7} {:>8}  {}".format(*cells))
    lines += [f"{name:<10} not run" for name in summary["not_run"]]
    lines += [
        "",
        "held" if summary["held"] else "NOT HELD",
        "Nothing was run twice: no stage reruns a test that failed.",
    ]
    for row in summary["stages"]:
        names = row["failed_names"]
        more = [f"  … and {len(names) - FAILED_TOLD_MAX} more"] if len(names) > FAILED_TOLD_MAX else []
        if row["outcome"] != HELD:
            lines += ["", f"{row['stage']}: {row['outcome']}, exit code {row['exit_code']}, {row['log']}"]
            lines += [*(f"  {name}" for name in names[:FAILED_TOLD_MAX]), *more]
    seeds = [f"  {row['stage']}: {name} {seed}" for row in summary["stages"] for name, seed in row["seeds"].items()]
    lines += ["", "seeds", *seeds] if seeds else []
    lines += ["", "versions", *(f"  {name}: {version}" for name, version in summary["versions"].items())]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main())
