"""`make nightly`: everything that searches for the unknown, one stage after another, and what became of it.

    python packaging/nightly.py [--only STAGE[,STAGE]] [--list] [--seeds 2000] [--fuzz-seconds 300] [--limit live=200] …

A stage is a command with the longest it may take. It goes on after one that failed. Each leaves its log in
``build/nightly/<stage>.log``, and after each the summary is written anew, as ``build/nightly.json`` and
``build/nightly.txt``: what held and what did not, seconds, how many tests passed, failed and were skipped, the names of
those that failed, seeds, and of what and on what it was run. Nothing is run twice until it holds, so that ``reruns`` is
always 0. The exit code is 1 unless every stage held.

Where chance decides, the number is drawn here, handed on, and written down: `Stage.seeds`. What pytest ran is read from
its own report (junit), what cargo and the simulation ran from their logs.
"""

from __future__ import annotations

import argparse
import json
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
from xml.etree import ElementTree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TOP = Path(__file__).resolve().parent.parent
BUILD = TOP / "build"
LOGS = BUILD / "nightly"
ATTENDED = TOP / "packaging" / "attended.py"

END_SECONDS_MAX = 90.0
"""For a stage that was told to end: attended.py gives it a part of this, and kills what is left in the rest."""
FAILED_TOLD_MAX = 50
"""Of a stage, in the table; all are in the JSON."""

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


@dataclass(frozen=True)
class Counts:
    """What tests a stage ran; None where nobody counted."""

    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None
    failed_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """What became of a stage."""

    stage: Stage
    outcome: str
    exit_code: int
    seconds: float
    counts: Counts


class Told(KeyboardInterrupt):
    """SIGTERM came, of which the stage has not heard, as it has of an interrupt."""


def _tell(_: int, __: object) -> None:
    raise Told


def plan(words: argparse.Namespace, draw: SystemRandom) -> list[Stage]:
    """All stages, in their order."""
    order, first, mutations, conversations = draw.randrange(2**32), *(draw.randrange(2**31) for _ in range(3))
    shuffled = f'-m "" -p randomly --randomly-seed={order}'
    fuzz = [f"SECONDS={words.fuzz_seconds}", f"EXAMPLES={words.examples}", f"CONVERSATIONS={words.conversations}"]
    fuzz += [f"FUZZ=--seed={conversations} --results=build/nightly/http_fuzz.json"]
    stages = [
        Stage("lint", ("make", "lint"), 20),
        Stage("order", ("make", "test", f"PYTEST={shuffled}"), 30, {"TRIKUBELET_EXPLORE": "1"}, {"order": order}),
        Stage("cargo", ("cargo", "test", "--locked"), 20),
        Stage("otel", ("make", "test-otel"), 10),
        Stage(
            "seeds", ("make", "sim", f"SEEDS={words.seeds}", f"SIM=--first={first}"), 60, seeds={"first seed": first}
        ),
        Stage(
            "fuzz",
            ("make", "fuzz", *fuzz),
            60 + words.fuzz_seconds / 60,
            {"RELIST_FUZZ_SEED": str(mutations)},
            {"mutations": mutations, "conversations": conversations},
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
    if words.list:
        for stage in stages:
            print(f"{stage.name:10} {stage.minutes_max:4.0f} min  {shlex.join(stage.command)}")
        return 0
    stages = [stage for stage in stages if not words.only or stage.name in words.only]
    LOGS.mkdir(parents=True, exist_ok=True)
    commit = _commit()
    began, date = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    results: list[Result] = []
    signal.signal(signal.SIGTERM, _tell)
    for stage in stages:
        print(f"nightly: {stage.name}: {shlex.join(stage.command)}", flush=True)
        results.append(run(stage))
        about = {"commit": commit, "date": date, "cores": os.cpu_count(), "versions": versions()}
        about["seconds"] = round(time.monotonic() - began)
        told = summary(about, stages, results)
        (BUILD / "nightly.json").write_text(json.dumps(told, indent=1) + "\n")
        (BUILD / "nightly.txt").write_text(table(told))
        print(f"nightly: {stage.name}: {results[-1].outcome} after {results[-1].seconds:.0f} s", flush=True)
        if results[-1].outcome == INTERRUPTED:
            break
    print(f"\n{(BUILD / 'nightly.txt').read_text()}", end="")
    return 0 if all(result.outcome == HELD for result in results) else 1


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    def names(text: str) -> list[str]:
        return [name for name in text.split(",") if name]

    def limits(text: str) -> dict[str, float]:
        return {name: float(minutes) for name, _, minutes in (part.partition("=") for part in names(text))}

    parser = argparse.ArgumentParser(prog="nightly", description="Everything that searches for the unknown.")
    parser.add_argument("--list", action="store_true", help="say what the stages are, and run none")
    parser.add_argument("--only", type=names, default=[], metavar="STAGE[,STAGE]", help="these stages alone")
    parser.add_argument("--limit", type=limits, default={}, metavar="STAGE=MINUTES[,…]", help="they may take so long")
    parser.add_argument("--seeds", type=int, default=2000, metavar="N", help="how many fresh seeds (2000)")
    parser.add_argument("--fuzz-seconds", type=int, default=300, metavar="S", help="of processor time to mutate (300)")
    parser.add_argument("--examples", type=int, default=20_000, metavar="N", help="random cases of lists (20000)")
    parser.add_argument("--conversations", type=int, default=5000, metavar="N", help="damaged ones (5000)")
    return parser.parse_args(arguments)


def run(stage: Stage) -> Result:
    """Run a stage to its end or to its limit."""
    log, report = LOGS / f"{stage.name}.log", LOGS / f"{stage.name}.xml"
    report.unlink(missing_ok=True)
    options = f"{os.environ.get('PYTEST_ADDOPTS', '')} --junitxml={shlex.quote(str(report))}"
    environment = {**os.environ, "PYTEST_ADDOPTS": options.strip(), **stage.environment}
    began, outcome = time.monotonic(), ""
    with log.open("wb") as output:
        command = [sys.executable, str(ATTENDED), *stage.command]
        process = subprocess.Popen(
            command, cwd=TOP, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            code = process.wait(stage.minutes_max * 60)
        except (subprocess.TimeoutExpired, KeyboardInterrupt) as error:
            outcome = LATE if isinstance(error, subprocess.TimeoutExpired) else INTERRUPTED
            if isinstance(error, subprocess.TimeoutExpired | Told):
                process.terminate()
            code = _ended(process)
    counts = count(log.read_text(errors="replace"), report.read_text() if report.exists() else "")
    return Result(stage, outcome or (FAILED if code else HELD), code, time.monotonic() - began, counts)


def _ended(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait(END_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


# ---- what was run --------------------------------------------------------------------------------------------------


def count(log: str, report: str) -> Counts:
    """What tests a log and pytest's report, where there is one, tell of, together."""
    counted = [counts for counts in (read_junit(report), read_cargo(log), read_simulation(log)) if counts]
    if not counted:
        return Counts()
    return Counts(
        sum(counts.passed or 0 for counts in counted),
        sum(counts.failed or 0 for counts in counted),
        sum(counts.skipped or 0 for counts in counted),
        tuple(name for counts in counted for name in counts.failed_names),
    )


def read_junit(report: str) -> Counts | None:
    """Of pytest's report; None of one that is empty or was cut short. A test that failed and whose fixtures did, too,
    stands there twice and is one."""
    try:
        cases = list(ElementTree.fromstring(report).iter("testcase"))
    except ElementTree.ParseError:
        return None
    ends: dict[str, str] = {}
    for case in cases:
        name = "::".join(filter(None, (case.get("classname", ""), case.get("name", ""))))
        children = {child.tag for child in case}
        end = "failed" if children & {"failure", "error"} else "skipped" if "skipped" in children else "passed"
        if ends.get(name) != "failed":
            ends[name] = end
    told = list(ends.values())
    failed = tuple(name for name, end in ends.items() if end == "failed")
    return Counts(told.count("passed"), len(failed), told.count("skipped"), failed)


def read_cargo(log: str) -> Counts | None:
    """Of every ``test result:`` line together."""
    ends = re.findall(r"^test result: .*? (\d+) passed; (\d+) failed; (\d+) ignored;", log, re.MULTILINE)
    if not ends:
        return None
    passed, failed, skipped = (sum(map(int, column)) for column in zip(*ends, strict=True))
    return Counts(passed, failed, skipped, tuple(re.findall(r"^test (\S+) .*\.\.\. FAILED$", log, re.MULTILINE)))


def read_simulation(log: str) -> Counts | None:
    """Of its last line, and of the seeds it names."""
    end = re.search(r"^(\d+) of (\d+) lives of \d+ seeds held", log, re.MULTILINE)
    if end is None:
        return None
    failed = re.findall(r"^(seed \d+ \(\w+\)): ", log, re.MULTILINE)
    return Counts(int(end[1]), int(end[2]) - int(end[1]), 0, tuple(failed))


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
        return "not installed"
    with suppress(OSError, subprocess.SubprocessError):
        told = subprocess.run([found, word], capture_output=True, text=True, timeout=60, check=False, cwd=TOP).stdout
        if told.strip():
            return told.strip().splitlines()[0]
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


def summary(about: Mapping[str, Any], stages: Sequence[Stage], results: Sequence[Result]) -> dict[str, Any]:
    """What is written as JSON: ``about`` and every stage, those that were not run, too."""
    rows: list[dict[str, Any]] = []
    for result in results:
        stage = result.stage
        row = {"stage": stage.name, "outcome": result.outcome, "exit_code": result.exit_code}
        row |= {"seconds": round(result.seconds), **asdict(result.counts), "reruns": 0, "seeds": dict(stage.seeds)}
        row |= {"command": shlex.join(stage.command), "log": f"build/nightly/{stage.name}.log"}
        rows.append(row)
    left = [stage.name for stage in stages[len(results) :]]
    held = not left and all(result.outcome == HELD for result in results)
    return {"held": held, **about, "stages": rows, "not_run": left}


def table(told: Mapping[str, Any]) -> str:
    """The summary as it is read."""
    lines = [f"nightly of {told['commit']}", f"{told['date']}, {told['cores']} cores, {told['seconds']} s in all", ""]
    columns = ("stage", "seconds", "passed", "failed", "skipped", "reruns", "outcome")
    lines.append("{:<10} {:>8} {:>8} {:>7} {:>8} {:>7}  {}".format(*columns))
    for row in told["stages"]:
        counts = ["-" if row[name] is None else row[name] for name in ("passed", "failed", "skipped")]
        cells = (row["stage"], row["seconds"], *counts, row["reruns"], row["outcome"])
        lines.append("{:<10} {:>8} {:>8} {:>7} {:>8} {:>7}  {}".format(*cells))
    lines += [f"{name:<10} not run" for name in told["not_run"]]
    lines += ["", "held" if told["held"] else "NOT HELD", "Nothing was run twice: no stage reruns a test that failed."]
    for row in told["stages"]:
        names = row["failed_names"]
        more = [f"  … and {len(names) - FAILED_TOLD_MAX} more"] if len(names) > FAILED_TOLD_MAX else []
        if row["outcome"] != HELD:
            lines += ["", f"{row['stage']}: {row['outcome']}, exit code {row['exit_code']}, {row['log']}"]
            lines += [*(f"  {name}" for name in names[:FAILED_TOLD_MAX]), *more]
    seeds = [f"  {row['stage']}: {name} {seed}" for row in told["stages"] for name, seed in row["seeds"].items()]
    lines += ["", "seeds", *seeds] if seeds else []
    lines += ["", "versions", *(f"  {name}: {version}" for name, version in told["versions"].items())]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main())
