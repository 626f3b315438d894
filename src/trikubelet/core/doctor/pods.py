"""Judges the pods on the runtime that the root directory does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.unknown_pods import unknown_pods_found, unknown_pods_remedy
from trikubelet.model.finding import good, warning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trikubelet.core.unknown_pods import UnknownOnRuntime
    from trikubelet.model.finding import Finding

PODS: Final = "pods"


def judge_unknown_pods(unknown: UnknownOnRuntime) -> Iterator[Finding]:
    """Judge the pods of the runtime that the root directory does not know."""
    if unknown:
        remedy = f"start the agent they belong to, or {unknown_pods_remedy(unknown)}"
        yield warning(PODS, unknown_pods_found(unknown), remedy)
    else:
        yield good(PODS, "all on the container runtime are this root directory's")
