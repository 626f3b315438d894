"""Does a pod run on the runtime that the root directory does not know?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.unknown_pods import REMEDY, unknown_pods_found
from trikubelet.model.finding import good, warning

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trikubelet.model.finding import Finding

PODS: Final = "pods"


def judge_unknown_pods(names: Sequence[tuple[str, str]]) -> Iterator[Finding]:
    """``names``: namespaces and names of the pods that run on the runtime and that the root directory does not have."""
    if names:
        yield warning(PODS, unknown_pods_found(names), f"start the agent they belong to, or {REMEDY}")
    else:
        yield good(PODS, "all that run are this root directory's")
