"""The numbers of a pod's containers, read from its last status.

A static pod may come back before its earlier life has ended. Upstream then finds the containers of that life at the
runtime and counts their restarts on. Here they are removed first, and the last status still has their numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trikubelet.model import k8s


def last_attempts(status: k8s.PodStatus) -> dict[str, int]:
    """Return the restart count of each container that has run, by name. An ephemeral container runs once."""
    shown = (*status.init_container_statuses, *status.container_statuses)
    return {one.name: one.restart_count for one in shown if one.container_id or one.last_state is not None}
