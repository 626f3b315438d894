"""What tests a stage of `nightly.py` ran: pytest's own report (junit) tells, and the logs of cargo and the simulation.
Text goes in and numbers come out."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from xml.etree import ElementTree


@dataclass(frozen=True)
class Counts:
    """What tests a stage ran; None where nobody counted."""

    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None
    failed_names: tuple[str, ...] = ()


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
    failed = tuple(name for name, end in ends.items() if end == "failed")
    counted = Counter(ends.values())
    return Counts(counted["passed"], len(failed), counted["skipped"], failed)


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
