"""The pod directories and log files on the real disk (``ports.PodFiles``): two halves, below two directories.

``pod_directories`` has the files below the root directory, ``pod_logs`` the logs and the links to them. Containers
write to both and decide how much there is; both follow the same rules of mutual exclusion (``pod_file_threads``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.host.pod_directories import DiskPodDirectories
from trikubelet.host.pod_file_threads import PodFileThreads
from trikubelet.host.pod_logs import DiskPodLogs

if TYPE_CHECKING:
    from pathlib import Path

    from trikubelet.kit.threads import ThreadPool


class DiskPodFiles(DiskPodDirectories, DiskPodLogs):
    """Owns nothing but its halves."""

    def __init__(
        self, root: Path, logs: Path, containers: Path, removing: ThreadPool, using: ThreadPool | None = None
    ) -> None:
        """Create the directories. ``containers``: the directory of the legacy links; ``removing``, ``using``: as in
        ``PodFileThreads``. Raises OSError."""
        threads = PodFileThreads(removing, using)
        DiskPodDirectories.__init__(self, root, threads)
        DiskPodLogs.__init__(self, logs, containers, threads)
