"""The kernel's cgroups as pods use them (``ports.PodCgroups``), for the cgroupfs driver; which version the machine has.

    v1   one tree per controller: /sys/fs/cgroup/{cpu,memory,pids,…}/kubepods/burstable/pod<uid>
    v2   one tree for all:        /sys/fs/cgroup/kubepods/burstable/pod<uid>

A machine with the v1 controllers and an empty v2 tree beside them (hybrid) is v1. Pod cgroups are made where a value is
to be set; the runtime makes the rest of the path in the other trees for itself, but leaves it behind, so removing looks
everywhere. The state is the kernel's: a file is written only where it says something else.

With the systemd driver every cgroup below a slice is systemd's to make, so nothing is written here: the runtime is told
the pod's slice and systemd makes it. The values of whole pods then wait for an adapter that speaks to systemd.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trikubelet.core.containers.amounts import of_pod
from trikubelet.core.containers.cgroup_values import class_settings, pod_settings
from trikubelet.core.containers.cgroups import POD_PREFIX, SYSTEMD, class_cgroup, pod_cgroup
from trikubelet.core.qos import BEST_EFFORT, BURSTABLE, GUARANTEED, qos_class
from trikubelet.host.mounts import parse_mountinfo
from trikubelet.model.errors import CgroupFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trikubelet.core.containers import NodeFacts
    from trikubelet.core.containers.cgroup_values import Setting
    from trikubelet.core.containers.cgroups import CgroupName
    from trikubelet.model.k8s import Pod
    from trikubelet.ports import PodCgroups

MOUNTINFO = Path("/proc/self/mountinfo")
CONTROLLERS = ("cpu", "memory", "pids", "hugetlb")
CLASSES = (GUARANTEED, BURSTABLE, BEST_EFFORT)
REQUIRED = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """The machine's cgroup trees. ``version`` is 1, 2, or 0 where there are none; ``of`` maps each controller we set
    values of to its tree; ``trees`` are all trees a container may be in."""

    version: int
    of: Mapping[str, Path]
    trees: tuple[Path, ...]


def read_hierarchies(mountinfo: Path = MOUNTINFO) -> Hierarchies:
    """What is mounted. Raises OSError when the kernel's list cannot be read."""
    mounts = parse_mountinfo(mountinfo.read_text(encoding="utf-8", errors="surrogateescape"))
    old = [(Path(mount.path), mount.fs_options.split(",")) for mount in mounts if mount.fs_type == "cgroup"]
    new = [Path(mount.path) for mount in mounts if mount.fs_type == "cgroup2"]
    trees = tuple(dict.fromkeys((*(path for path, _ in old), *new)))
    of = {name: path for path, options in reversed(old) for name in CONTROLLERS if name in options}
    if of:
        return Hierarchies(1, of, trees)
    if not new:
        return Hierarchies(0, {}, ())
    there = (new[0] / "cgroup.controllers").read_text().split()
    return Hierarchies(2, {name: new[0] for name in CONTROLLERS if name in there}, trees)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which cgroups to use: the port, the facts that go with it, and why pods have none of their own, or empty."""

    cgroups: PodCgroups
    facts: NodeFacts
    why_not: str = ""


def choose_cgroups(facts: NodeFacts, hierarchies: Hierarchies) -> Choice:
    """Take what the configuration asks for and the machine can do. Where pod cgroups are asked for and cannot be had,
    containers live in the runtime's own; ``why_not`` is for the log, once. Makes the cgroups of the classes."""
    facts = replace(facts, cgroup_version=hierarchies.version)
    if not facts.cgroups_managed:
        return Choice(NoPodCgroups(), facts, "cgroupsPerQOS is off")
    if facts.cgroup_driver == SYSTEMD:
        why = "the systemd driver's slices are made by systemd: limits hold for each container, not for whole pods"
        return Choice(NoPodCgroups(), facts, why)
    missing = [name for name in REQUIRED if name not in hierarchies.of]
    why = f"the machine has no cgroup controller {' and no '.join(missing)}" if missing else ""
    if not why:
        cgroups = CgroupfsPods(hierarchies, facts)
        try:
            cgroups.prepare()
        except OSError as error:
            why = f"the cgroups of the pods' classes cannot be made: {error}"
        else:
            return Choice(cgroups, facts)
    return Choice(NoPodCgroups(), replace(facts, cgroups_managed=False), why)


class NoPodCgroups:
    """Pods without cgroups of our making (``ports.PodCgroups``): off, impossible here, or systemd's."""

    def ensure(self, pod: Pod) -> None:
        """The runtime makes what it needs."""

    def remove(self, uid: str) -> None:
        """Nothing of ours to remove."""

    def leftovers(self) -> frozenset[str]:
        """None of ours."""
        return frozenset()


class CgroupfsPods:
    """Owns what each Burstable pod it ensured asks of the CPU; the cgroups, as directories, are the kernel's
    (``ports.PodCgroups``)."""

    def __init__(self, hierarchies: Hierarchies, facts: NodeFacts) -> None:
        self._hierarchies = hierarchies
        self._facts = facts
        self._classes: dict[str, CgroupName] = {
            quality: class_cgroup(quality, facts.cgroup_root) for quality in CLASSES
        }
        self._milli_cpu: dict[str, int] = {}

    def prepare(self) -> None:
        """Make the cgroups of the classes. One that is there keeps its share until its pods are known again. Raises
        OSError."""
        for quality, name in self._classes.items():
            is_new = not (self._hierarchies.of["cpu"] / Path(*name)).exists()
            self._make(name)
            if is_new or quality != BURSTABLE:
                self._set(name, class_settings(quality, (), self._facts))

    def ensure(self, pod: Pod) -> None:
        """Make the pod's cgroup and bring its values up to date. Raises CgroupFailed."""
        name = pod_cgroup(pod, self._facts.cgroup_root)
        try:
            self._make(name)
            self._set(name, pod_settings(pod, self._facts))
            if qos_class(pod) == BURSTABLE:
                self._milli_cpu[pod.metadata.uid] = of_pod(pod, "requests", "cpu")
                self._weigh()
        except OSError as error:
            raise CgroupFailed("FailedCreatePodContainer", f"unable to ensure pod container exists: {error}") from error

    def remove(self, uid: str) -> None:
        """Remove the pod's cgroup wherever there is one, killing what is left in it. Raises CgroupFailed."""
        try:
            for directory in self._of_pod(uid):
                _kill(directory)
                _remove(directory)
            if self._milli_cpu.pop(uid, None) is not None:
                self._weigh()
        except OSError as error:
            raise CgroupFailed("FailedKillPod", f"the cgroup of pod {uid} cannot be removed yet: {error}") from error

    def leftovers(self) -> frozenset[str]:
        """UIDs of pods that have a cgroup in any tree."""
        return frozenset(uid for quality in CLASSES for uid in self._listed(quality, self._hierarchies.trees))

    def _weigh(self) -> None:
        """Give the Burstable class what its pods asked for together. While there are pods from before this process
        began that were not ensured yet, it loses nothing."""
        name = self._classes[BURSTABLE]
        wanted = class_settings(BURSTABLE, self._milli_cpu.values(), self._facts)
        tree = self._hierarchies.of["cpu"]
        if self._listed(BURSTABLE, [tree]) <= self._milli_cpu.keys():
            self._set(name, wanted)
            return
        now = tree / Path(*name, wanted[0].file)
        if int(wanted[0].value) > int(now.read_text()):
            self._set(name, wanted)

    def _listed(self, quality: str, trees: Iterable[Path]) -> set[str]:
        found: set[str] = set()
        for tree in trees:
            for directory in _children(tree / Path(*self._classes[quality])):
                if directory.name.startswith(POD_PREFIX):
                    found.add(directory.name.removeprefix(POD_PREFIX))
        return found

    def _of_pod(self, uid: str) -> list[Path]:
        paths = (Path(*name, POD_PREFIX + uid) for name in self._classes.values())
        return [tree / path for path in paths for tree in self._hierarchies.trees if (tree / path).is_dir()]

    def _make(self, name: CgroupName) -> None:
        """The cgroup with its ancestors, in every tree that has one of our controllers."""
        for tree in dict.fromkeys(self._hierarchies.of.values()):
            directory = tree
            for part in name:
                if self._hierarchies.version == 2:
                    _hand_down(directory, self._hierarchies.of)
                directory /= part
                directory.mkdir(mode=0o755, exist_ok=True)

    def _set(self, name: CgroupName, settings: Iterable[Setting]) -> None:
        for controller, file, value in settings:
            if controller in self._hierarchies.of:
                _write(self._hierarchies.of[controller] / Path(*name, file), value)


def _hand_down(directory: Path, controllers: Iterable[str]) -> None:
    """Let the children of a v2 cgroup have controllers (cgroup-v2: "no internal processes", so none live here)."""
    file = directory / "cgroup.subtree_control"
    missing = [name for name in controllers if name not in file.read_text().split()]
    if missing:
        file.write_text(" ".join(f"+{name}" for name in missing))


def _write(file: Path, value: str) -> None:
    """Set a value that is not set yet. The kernel shows what it made of it, so one it rounds is written again; that
    costs a system call and changes nothing."""
    if file.read_text().strip() != value:
        file.write_text(value)


def _children(directory: Path) -> list[Path]:
    try:
        return [child for child in directory.iterdir() if child.is_dir() and not child.is_symlink()]
    except FileNotFoundError:
        return []


def _kill(directory: Path) -> None:
    """Kill every process in a cgroup and below. Our own is never among them: it would mean that somebody put the agent
    into a pod, and OSError is raised."""
    for child in _children(directory):
        _kill(child)
    for text in (directory / "cgroup.procs").read_text().split():
        pid = int(text)
        if pid == os.getpid():
            raise OSError(f"{directory}: this agent itself is in it")
        if pid > 0:  # 0 is a process of a PID namespace that is not ours to see
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def _remove(directory: Path) -> None:
    """Remove a cgroup with those below it. Raises OSError while a process in one has not ended."""
    for child in _children(directory):
        _remove(child)
    directory.rmdir()
