"""One thing the doctor found. A record of its own, so that a client decodes it without loading the judgements."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable


class Severity(StrEnum):
    """How bad it is, the least first. A warning will cost something one day; with an error pods do not run, or the node
    is not what its configuration says."""

    GOOD = "ok"
    WARNING = "warning"
    ERROR = "error"


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """``check`` is what was looked at, in a word; ``found`` what there is; ``remedy`` what to do, empty where nothing
    is to be done."""

    check: str
    severity: Severity
    found: str
    remedy: str = ""


def good(check: str, found: str) -> Finding:
    """All is well."""
    return Finding(check, Severity.GOOD, found)


def warning(check: str, found: str, remedy: str) -> Finding:
    """Something will cost something one day."""
    return Finding(check, Severity.WARNING, found, remedy)


def error(check: str, found: str, remedy: str) -> Finding:
    """Something keeps pods from running."""
    return Finding(check, Severity.ERROR, found, remedy)


def worst(findings: Iterable[Finding]) -> Severity:
    """The worst of them; good where there is none."""
    order = list(Severity)
    return max((finding.severity for finding in findings), key=order.index, default=Severity.GOOD)
