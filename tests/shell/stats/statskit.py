"""A machine in memory (``ports.Gauges``) that says what it was told, and counts what it is asked."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.statskit import DISK, machine
from trikubelet.model.usage import PodGauges

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Set

    from trikubelet.model.usage import Depth, FsUsage, NodeGauges, PodPlace, Usage


@dataclass
class FakeGauges:
    """``cgroups`` by path, without the slash before it; of containers below their pod's. ``held``: directories that
    answer only when their event is set; ``so_far``: what has been counted of them until then."""

    cgroups: dict[str, Usage] = field(default_factory=dict)
    disks: dict[str, FsUsage] = field(default_factory=dict)
    held: dict[str, threading.Event] = field(default_factory=dict)
    so_far: dict[str, tuple[int, int]] = field(default_factory=dict)
    own: str = "/"
    asked: Counter[str] = field(default_factory=Counter)
    limited: list[Set[str]] = field(default_factory=list)

    def pods(self, places: Sequence[PodPlace], depth: Depth) -> Sequence[PodGauges]:
        self.asked[depth.value] += 1
        self.limited = [place.limited for place in places]
        found = []
        for place in places:
            path = "/".join(place.cgroup)
            containers = {
                id_: self.cgroups[f"{path}/{id_}"] for id_ in place.containers if f"{path}/{id_}" in self.cgroups
            }
            found.append(PodGauges(self.cgroups.get(path), containers))
        return found

    def cgroup(self, path: str, depth: Depth) -> Usage | None:
        return self.cgroups.get(path.strip("/"))

    def own_cgroup(self) -> str:
        return self.own

    def node(self, depth: Depth) -> NodeGauges:
        return machine()

    def device(self, path: str) -> str:
        return "/dev/sda1"

    def disk(self, path: str) -> FsUsage:
        return self.disks.get(path, DISK)

    def directory(self, path: str, counted: Callable[[int, int], None] | None = None) -> FsUsage:
        self.asked[path] += 1
        if path in self.so_far and counted is not None:
            counted(*self.so_far[path])
        if path in self.held:
            self.held[path].wait(60)
        if path not in self.disks:
            raise FileNotFoundError(path)
        return self.disks[path]

    def files(self, path: str) -> FsUsage:
        return self.directory(path)
