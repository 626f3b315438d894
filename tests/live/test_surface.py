"""What a cluster and the runtime see of pods on the agent is what they see on upstream's kubelet.

The files in ``tests/recorded/surface`` are what upstream's kubelet showed (`python -m live.kit surface` records them
anew). What may differ, and why, is `ACCEPTED`.
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

ACCEPTED: Final[dict[str, str]] = {}
"""Patterns of differences (``pod: place: upstream's → the agent's``) that are meant, with the reason."""


def test_each_pod_shows_what_it_shows_on_upstreams_kubelet(
    control_plane: ControlPlane, containerd2: Containerd
) -> None:
    chosen = cases()
    shown = observe(ClusterAgent, containerd2, control_plane, chosen)

    lines = [f"{name}: {line}" for name, one in shown.items() for line in surface.differences(recorded(name), one)]
    unexplained = [line for line in lines if not any(re.search(pattern, line) for pattern in ACCEPTED)]
    assert not unexplained, "\n".join(unexplained)


def test_every_pod_of_the_table_was_recorded() -> None:
    assert {case.name for case in cases()} == {path.stem for path in RECORDED.glob("*.json")}
