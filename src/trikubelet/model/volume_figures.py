"""Metrics of setting volumes up, as plain data. (upstream-behaviour.md §1.22)"""

from __future__ import annotations

from collections import Counter
from typing import Final

from trikubelet.kit.distribution import Distributions

SECONDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0)
"""Upper bounds of how long it takes: upstream's."""
SUCCESS: Final = "success"
FAILED: Final = "fail-unknown"
"""Upstream's words for how it went."""


class VolumeFigures:
    """Owns which volumes are ready, by pod, and how long it took to get them so. ``durations``: by upstream's name of
    the kind of volume and how it went. A volume that is ready is looked at again at each sync of its pod, which is
    not measured."""

    def __init__(self) -> None:
        self.durations: Distributions[tuple[str, str]] = Distributions(SECONDS)
        self._ready: dict[str, dict[str, str]] = {}

    def tried(self, uid: str, volume: str, plugin: str, seconds: float, *, succeeded: bool) -> None:
        """One try to set a volume of a pod up is over."""
        ready = self._ready.setdefault(uid, {})
        if volume in ready and succeeded:
            return
        self.durations[plugin, SUCCESS if succeeded else FAILED].add(seconds)
        if succeeded:
            ready[volume] = plugin

    def released(self, uid: str) -> None:
        """The pod has no volumes any more."""
        self._ready.pop(uid, None)

    def ready(self) -> Counter[str]:
        """Return the number of ready volumes, by kind."""
        return Counter(plugin for volumes in self._ready.values() for plugin in volumes.values())
