"""The summary of a nightly run, as `nightly.py` writes it: what was asked for, what held and what did not, seconds, how
many tests passed, failed and were skipped, the names of those that failed, seeds and commands, and of what and on what
it was run. It says of a part that it is one, and which stages nobody chose. Plain data in, JSON and a text out.
"""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from counted_tests import Counts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HELD, FAILED, LATE, INTERRUPTED = "held", "failed", "ended at its limit", "interrupted"
BEGUN = "begun, no result"
"""Of a stage that runs, and of one that ran when the run was killed."""

FAILED_TOLD_MAX = 50
"""Of a stage, in the table; all are in the JSON."""


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
    """What became of a stage; without an exit code and seconds as long as nothing has."""

    stage: Stage
    outcome: str
    exit_code: int | None
    seconds: float | None
    counts: Counts


def summarize(
    about: Mapping[str, Any], stages: Sequence[Stage], results: Sequence[Result], begun: Stage | None = None
) -> dict[str, Any]:
    """What is written as JSON: ``about`` and every stage that was chosen, those that were not run, too."""
    told = [*results, *([Result(begun, BEGUN, None, None, Counts())] if begun else [])]
    rows: list[dict[str, Any]] = []
    for result in told:
        stage = result.stage
        row: dict[str, Any] = {"stage": stage.name, "outcome": result.outcome, "exit_code": result.exit_code}
        row |= {"seconds": None if result.seconds is None else round(result.seconds)}
        row |= {**asdict(result.counts), "reruns": 0, "seeds": dict(stage.seeds)}
        row |= {"command": stage.line, "log": f"build/nightly/{stage.name}.log"}
        rows.append(row)
    left = [stage.name for stage in stages[len(told) :]]
    held = not left and all(result.outcome == HELD for result in told)
    whole = not about["not_chosen"]
    return {"held": held, "whole": whole, **about, "stages": rows, "not_run": left}


def table(summary: Mapping[str, Any]) -> str:
    """The summary as it is read."""
    rows, not_run, not_chosen = summary["stages"], summary["not_run"], summary["not_chosen"]
    lines = [f"nightly of {summary['commit']}"]
    if not_chosen:
        chosen = [*(row["stage"] for row in rows), *not_run]
        lines.append(f"PART OF THE NIGHT: {', '.join(chosen)}; not chosen: {', '.join(not_chosen)}")
    lines += [f"{summary['date']}, {summary['cores']} cores, {summary['seconds']} s in all", summary["command"], ""]
    columns = ("stage", "seconds", "passed", "failed", "skipped", "outcome")
    lines.append("{:<10} {:>8} {:>8} {:>7} {:>8}  {}".format(*columns))
    for row in rows:
        counts = ["-" if row[name] is None else row[name] for name in ("seconds", "passed", "failed", "skipped")]
        lines.append("{:<10} {:>8} {:>8} {:>7} {:>8}  {}".format(row["stage"], *counts, row["outcome"]))
    lines += [f"{name:<10} not run" for name in not_run]
    lines += [f"{name:<10} not chosen" for name in not_chosen]
    verdict = "held" if summary["held"] else "NOT HELD"
    lines += ["", f"{verdict}, of a part of the night" if not_chosen else verdict]
    lines += ["Nothing was run twice: no stage reruns a test that failed."]
    for row in rows:
        lines += _failures(row)
    seeds = [f"  {row['stage']}: {name} {seed}" for row in rows for name, seed in row["seeds"].items()]
    lines += ["", "seeds", *seeds] if seeds else []
    lines += ["", "commands", *(f"  {row['stage']}: {row['command']}" for row in rows)] if rows else []
    lines += ["", "versions", *(f"  {name}: {version}" for name, version in summary["versions"].items())]
    return "\n".join([*lines, ""])


def _failures(row: Mapping[str, Any]) -> list[str]:
    """Why a stage did not hold, if it did not."""
    if row["outcome"] == HELD:
        return []
    names = row["failed_names"]
    code = "" if row["exit_code"] is None else f", exit code {row['exit_code']}"
    lines = ["", f"{row['stage']}: {row['outcome']}{code}, {row['log']}"]
    lines += [f"  {name}" for name in names[:FAILED_TOLD_MAX]]
    return [*lines, f"  … and {len(names) - FAILED_TOLD_MAX} more"] if len(names) > FAILED_TOLD_MAX else lines
