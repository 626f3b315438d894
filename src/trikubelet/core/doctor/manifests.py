"""Judges the manifests of static pods: their faults, each with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.model.faults import one_line
from trikubelet.model.finding import error, good

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trikubelet.model.faults import Fault
    from trikubelet.model.finding import Finding

MANIFESTS: Final = "manifests"


def judge_manifests(place: str, faults: Sequence[Fault]) -> Iterator[Finding]:
    """Judge the manifests of ``place``: a directory, file or URL."""
    for fault in faults:
        found = one_line(fault.source, fault.line, fault.path, fault.problem, "")
        yield error(MANIFESTS, found, fault.remedy or "correct the file: the agent sees the change by itself")
    if not faults:
        yield good(MANIFESTS, f"no faults in {place}")
