"""A cluster and the runtime see the same of pods on the agent as on upstream's kubelet.

The files in ``tests/recorded/surface`` are what upstream's kubelet showed (`make surface` records them anew). Known
differences are listed here: `ACCEPTED` for good, `OPEN` until they agree.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest

from live.kit import surface
from live.kit.cluster_agent import ClusterAgent
from live.kit.surface_pods import cases
from live.kit.surface_run import RECORDED, observe, recorded

if TYPE_CHECKING:
    from live.kit.containerd import Containerd
    from live.kit.control_plane import ControlPlane

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ACCEPTED: Final = {
    r"status\.resources: .*'9007199254740988Ki'\}\} → None": "upstream reports no limit as the number of cgroup v1",
    r"selinux_relabel: None → True": "asked for always; a runtime without SELinux passes over it",
    r"hugepage_limits: .* → None": "nothing is limited where the kernel's hugetlb controller is mounted nowhere",
    r"conditions\[2\]\.(message: None → 'pod sandbox is not|reason: None → 'PodSandboxNotReady')": "since 1.37",
    r"events: extra .* FailedMount: .*failed to fetch token: pod .* not found'": "the API server lags behind itself",
    r"privileged: .*(masked|readonly)_paths: ": "a runtime masks nothing in a privileged container",
}
"""Patterns of differences (``pod: place: upstream's → the agent's``) that are meant, with the reason. The recorded
release is 1.36.3."""
OPEN: Final[tuple[str, ...]] = ()
"""Patterns of differences that are known and not meant. A row goes when nothing matches it any more."""


def test_each_pod_shows_what_it_shows_on_upstreams_kubelet(
    control_plane: ControlPlane, containerd2: Containerd
) -> None:
    chosen = cases()
    shown = observe(ClusterAgent, containerd2, control_plane, chosen)

    lines = [f"{name}: {line}" for name, one in shown.items() for line in surface.differences(recorded(name), one)]
    unexplained = [line for line in lines if not any(re.search(pattern, line) for pattern in (*ACCEPTED, *OPEN))]
    assert not unexplained, "\n".join(unexplained)
    assert [] == [pattern for pattern in OPEN if not any(re.search(pattern, line) for line in lines)]


def test_every_pod_of_the_table_was_recorded() -> None:
    assert {case.name for case in cases()} == {path.stem for path in RECORDED.glob("*.json")}
