"""What tests a stage of `nightly.py` ran: pytest's own report (junit) tells, and the logs of cargo and the simulation.
Text goes in, numbers and names come out; of the checkout it is looked which files there are."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree


@dataclass(frozen=True)
class Counts:
    """What tests a stage ran; None where nobody counted."""

    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None
    failed_names: tuple[str, ...] = ()


def count(log: str, report: str, top: Path) -> Counts:
    """What tests a log and pytest's report, where there is one, tell of, together; they were run in ``top``."""
    counted = [counts for counts in (read_junit(report, top), read_cargo(log), read_simulation(log)) if counts]
    if not counted:
        return Counts()
    return Counts(
        sum(counts.passed or 0 for counts in counted),
        sum(counts.failed or 0 for counts in counted),
        sum(counts.skipped or 0 for counts in counted),
        tuple(name for counts in counted for name in counts.failed_names),
    )


def read_junit(report: str, top: Path) -> Counts | None:
    """Of pytest's report; None of one that is empty or was cut short. A test that failed and whose fixtures did, too,
    stands there twice and is one. The names are those by which pytest runs them."""
    try:
        cases = list(ElementTree.fromstring(report).iter("testcase"))
    except ElementTree.ParseError:
        return None
    ends: dict[str, str] = {}
    for case in cases:
        name = _node_id(case.get("classname", ""), case.get("name", ""), top)
        children = {child.tag for child in case}
        end = "failed" if children & {"failure", "error"} else "skipped" if "skipped" in children else "passed"
        if ends.get(name) != "failed":
            ends[name] = end
    failed = tuple(name for name, end in ends.items() if end == "failed")
    counted = Counter(ends.values())
    return Counts(counted["passed"], len(failed), counted["skipped"], failed)


def _node_id(module: str, name: str, top: Path) -> str:
    """``module`` is the file's path with dots, and behind it classes. One that could not be read has only a name."""
    words = (module or (name if re.fullmatch(r"[\w.]+", name) else "")).split(".")
    for end in range(len(words), 0, -1):
        file = Path(*words[: end - 1], f"{words[end - 1]}.py")
        if (top / file).is_file():
            return "::".join([file.as_posix(), *words[end:], *([name] if module else [])])
    return "::".join(filter(None, (module, name)))


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
