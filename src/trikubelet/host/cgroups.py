"""The cgroups of pods (``ports.PodCgroups``), with either cgroup driver, and the machine's cgroup version.

    v1   one tree per controller: /sys/fs/cgroup/{cpu,memory,pids,…}/kubepods/burstable/pod<uid>
    v2   one tree for all:        /sys/fs/cgroup/kubepods/burstable/pod<uid>

A machine with the v1 controllers and an additional, empty v2 tree (hybrid) is v1. Pod cgroups are created only in the
trees where a value is set. The runtime creates the path in the other trees, but does not remove it, so removal looks in
all trees. The kernel owns the state: a file is written only if its value differs.

With the systemd driver a cgroup is a slice, with systemd's name (``core.containers.cgroups``). Systemd starts it first
(``host.slices``) and creates the cgroups in its own trees. The agent creates those in the trees that systemd does not
manage, like that of huge pages, and sets the files as with the other driver.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from trikubelet.core.containers.cgroup_values import (
    CPUSET,
    RESERVED_PAGES,
    asked,
    class_settings,
    class_sums,
    cpu_settings,
    pod_settings,
)
from trikubelet.core.containers.cgroups import SYSTEMD, cgroup_below, class_cgroup, parts, pod_cgroup, uid_of
from trikubelet.core.containers.reserved_cgroups import reserved_settings
from trikubelet.core.qos import BEST_EFFORT, BURSTABLE, GUARANTEED
from trikubelet.host.cgroup_removal import Checkpoints, children, kill_all, remove_all
from trikubelet.host.examination import is_by_systemd
from trikubelet.host.mounts import parse_mountinfo, read_mountinfo
from trikubelet.host.node import read_online_cpus
from trikubelet.host.slices import Slices
from trikubelet.kit.threads import StillRunning, ThreadPool
from trikubelet.model.errors import CgroupFailed
from trikubelet.model.frozen import Frozen
from trikubelet.model.names import uid_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from trikubelet.core.containers import NodeFacts
    from trikubelet.core.containers.cgroup_values import Asked, Setting
    from trikubelet.core.containers.cgroups import CgroupName
    from trikubelet.core.containers.reserved_cgroups import ReservedCgroup
    from trikubelet.model.k8s import Pod
    from trikubelet.ports import PodCgroups

MOUNTINFO = Path("/proc/self/mountinfo")
CONTROLLERS = ("cpu", "memory", "pids", "hugetlb")
"""The controllers in whose trees the agent creates pod cgroups, in version 1. Version 2 adds ``cpuset``."""
CLASSES = (GUARANTEED, BURSTABLE, BEST_EFFORT)
REQUIRED = ("cpu", "memory")
MEMORY_LIMITS = ("memory.max", "memory.limit_in_bytes")
LOWERING_MAX = 32
"""Concurrent writes that lower a memory limit. Below the current usage the kernel frees memory first, and blocks the
writer until that memory is written to swap or disk."""


class Hierarchies(Frozen):
    """The machine's cgroup trees. ``version`` is 1, 2, or 0 if there are none; ``of`` maps each requested controller to
    its tree; ``trees`` are all trees a container may be in."""

    version: int
    of: Mapping[str, Path]
    trees: tuple[Path, ...]


def read_hierarchies(mountinfo: Path = MOUNTINFO, controllers: Sequence[str] | None = None) -> Hierarchies:
    """Return the mounted trees of these controllers, by default those of pods. Raises OSError if the kernel's list
    cannot be read."""
    mounts = parse_mountinfo(read_mountinfo(mountinfo))
    old = [(Path(mount.path), mount.fs_options.split(",")) for mount in mounts if mount.fs_type == "cgroup"]
    new = [Path(mount.path) for mount in mounts if mount.fs_type == "cgroup2"]
    trees = tuple(dict.fromkeys((*(path for path, _ in old), *new)))
    of = {name: path for path, options in reversed(old) for name in controllers or CONTROLLERS if name in options}
    if of:
        return Hierarchies(1, of, trees)
    if not new:
        return Hierarchies(0, {}, ())
    there = (new[0] / "cgroup.controllers").read_text().split()
    return Hierarchies(2, {name: new[0] for name in controllers or (*CONTROLLERS, CPUSET) if name in there}, trees)


class CgroupChoice(Frozen):
    """The cgroups to use: the port, the matching facts, and why pods have no cgroups of their own ("" if they do)."""

    cgroups: PodCgroups
    facts: NodeFacts
    why_not: str = ""


def choose_cgroups(facts: NodeFacts, hierarchies: Hierarchies, root: Path = Path("/")) -> CgroupChoice:
    """Choose the cgroups that are configured and that the machine supports. If pod cgroups are configured but not
    supported, containers are in the runtime's own; the caller logs ``why_not`` once. With the cgroupfs driver this
    creates the cgroups of the classes."""
    facts = replace(facts, cgroup_version=hierarchies.version)
    if "hugetlb" not in hierarchies.of:  # no limit could be enforced, and CRI-O rejects containers that have one
        facts = replace(facts, huge_page_sizes=())
    if not facts.cgroups_managed:
        return CgroupChoice(NoPodCgroups(), facts, "cgroupsPerQOS is off")
    by_systemd = facts.cgroup_driver == SYSTEMD
    if by_systemd and not is_by_systemd(root):
        return CgroupChoice(NoPodCgroups(), facts, "the cgroup driver is systemd, which does not run this machine")
    missing = [name for name in REQUIRED if name not in hierarchies.of]
    why = f"the machine has no cgroup controller {' and no '.join(missing)}" if missing else ""
    if not why:
        slices = Slices() if by_systemd else None
        cgroups = KernelPodCgroups(hierarchies, facts, slices, online_cpus=read_online_cpus)
        try:
            if not by_systemd:
                cgroups.prepare()
        except OSError as error:
            why = f"cannot create the cgroups of the QoS classes: {error}"
        else:
            rules = replace(facts.memory, swap_controlled=_limits_swap(hierarchies))
            return CgroupChoice(cgroups, replace(facts, memory=rules))
    return CgroupChoice(NoPodCgroups(), replace(facts, cgroups_managed=False), why)


class NoPodCgroups:
    """No pod cgroups (``ports.PodCgroups``): they are disabled, or the machine does not support them."""

    async def ensure(self, pod: Pod, *, beside: Pod | None = None) -> None:
        """Do nothing: the runtime creates the cgroups that it needs."""

    async def remove(self, uid: str) -> None:
        """Do nothing: the agent created no cgroup."""

    async def limit_all(self) -> bool:
        """False: there is no cgroup of all pods."""
        return False

    async def allow_online_cpus(self) -> None:
        """Do nothing: the agent limits no cgroup to CPUs."""

    async def limit_reserved(self, cgroup: ReservedCgroup) -> bool:
        """False: nothing is reserved from pods that share the runtime's cgroup."""
        return False

    def leftovers(self) -> frozenset[str]:
        """Return no UIDs: the agent created no cgroup."""
        return frozenset()


class KernelPodCgroups:
    """Owns the requests of each ensured pod, as far as its QoS class needs them, and the set of pods whose cgroups are
    being removed. The cgroups, as directories, are the kernel's (``ports.PodCgroups``). ``slices``: with the systemd
    driver; ``online_cpus``: returns the kernel's list of online CPUs, empty if it is unknown."""

    def __init__(
        self,
        hierarchies: Hierarchies,
        facts: NodeFacts,
        slices: Slices | None = None,
        *,
        online_cpus: Callable[[], str] = str,
    ) -> None:
        self._hierarchies = hierarchies
        self._facts = facts
        self._slices = slices
        self._online_cpus = online_cpus
        self._cpus = online_cpus()
        """The CPUs that all pods may use."""
        self._lowering = ThreadPool("memory limits", LOWERING_MAX)
        self._are_classes_held = slices is None
        self._classes: dict[str, CgroupName] = {
            quality: class_cgroup(quality, facts.cgroup_root) for quality in CLASSES
        }
        self._asked: dict[str, Asked] = {}
        self._weighed: dict[str, Asked] | None = {}
        """The requests from which the classes' values were computed; None while not all pods are known."""
        self._weighing = trio.Lock()
        self._removing: Counter[str] = Counter()  # a worker and the search for orphans may remove the same pod's

    def prepare(self) -> None:
        """Create the cgroups of the classes. An existing one keeps its share until its pods are known again, and its
        limits until ``limit_all``, because the kernel may reject lower ones. Raises OSError."""
        for quality, name in self._classes.items():
            is_new = not (self._hierarchies.of["cpu"] / self._path(name)).exists()
            self._make(name)
            if is_new or quality == BEST_EFFORT:
                self._set(self._path(name), self._class_settings(quality))

    async def ensure(self, pod: Pod, *, beside: Pod | None = None) -> None:
        """Create the pod's cgroup and bring its values up to date, so that they suffice for the pod and for ``beside``,
        another state of it. Raises CgroupFailed."""
        # A static pod that came back has the same UID: its new containers would be killed with the leftovers.
        if self._removing[pod.metadata.uid]:
            why = "the leftovers of its earlier instance are still being removed"
            raise CgroupFailed("FailedCreatePodContainer", f"unable to ensure pod container exists: {why}")
        try:
            await self._hold_classes()
            await self._bring(pod_cgroup(pod, self._facts.cgroup_root), pod_settings(pod, self._facts, beside))
            if (wants := asked(pod)).quality != BEST_EFFORT:
                self._asked[pod.metadata.uid] = wants
                await self._weigh()
        except (OSError, StillRunning) as error:
            raise CgroupFailed("FailedCreatePodContainer", f"unable to ensure pod container exists: {error}") from error

    async def remove(self, uid: str) -> None:
        """Remove the pod's cgroup from every tree, and kill the processes in it. Raises CgroupFailed."""
        checkpoints = Checkpoints()
        self._removing[uid] += 1
        try:
            for directory in self._of_pod(uid):
                await kill_all(directory, checkpoints)
            if self._slices is not None:
                for unit in self._units(uid, self._slices):
                    await self._slices.release(unit)
            for directory in self._of_pod(uid):
                await remove_all(directory, checkpoints)
            self._asked.pop(uid, None)
            if self._weighed != self._asked:  # also where an earlier sync failed after this point
                await self._weigh()
        except OSError as error:
            raise CgroupFailed("FailedKillPod", f"cannot remove the cgroup of pod {uid} yet: {error}") from error
        finally:
            self._removing[uid] -= 1
            self._removing += Counter()  # drops the entries that reached zero

    async def limit_all(self) -> bool:
        """Create the cgroups of the classes, and update that of all pods. Raises CgroupFailed."""
        try:
            await self._hold_classes()
            await self._bring(self._classes[GUARANTEED], self._class_settings(GUARANTEED))
        except (OSError, StillRunning) as error:
            raise CgroupFailed(
                "FailedNodeAllocatableEnforcement", f"cannot limit the cgroup of all pods: {error}"
            ) from error
        return True

    async def allow_online_cpus(self) -> None:
        """Let all pods use the online CPUs, if these have changed since the last call. Raises CgroupFailed."""
        await trio.lowlevel.checkpoint()
        cpus = self._online_cpus()
        if cpus == self._cpus or self._hierarchies.version != 2:
            return
        try:
            await self._bring(self._classes[GUARANTEED], cpu_settings(cpus))
        except OSError as error:
            why = f"cannot give CPUs {cpus} to the cgroup of all pods: {error}"
            raise CgroupFailed("FailedNodeAllocatableEnforcement", why) from error
        self._cpus = cpus

    async def limit_reserved(self, cgroup: ReservedCgroup) -> bool:
        """Limit a cgroup that the operator has created. Raises CgroupFailed."""
        settings = reserved_settings(cgroup, self._facts)
        path = Path(*cgroup.parts(self._facts.cgroup_driver))
        try:
            if not settings:
                raise OSError("no resources of the kind to enforce are reserved")
            for controller in dict.fromkeys(one.controller for one in settings):
                self._require(controller, path)
            if self._slices is not None:
                await self._slices.change(path.name, settings)
            await self._write_all(path, settings)
        except (OSError, StillRunning) as error:
            raise CgroupFailed("FailedNodeAllocatableEnforcement", str(error)) from error
        return True

    def _require(self, controller: str, path: Path) -> None:
        tree = self._hierarchies.of.get(controller)
        if tree is None:
            raise OSError(f"the machine has no cgroup controller {controller}")
        if not (tree / path).is_dir():
            raise OSError(f"{tree / path}: no such cgroup (create it, or correct its name)")

    def leftovers(self) -> frozenset[str]:
        """Return the UIDs of the pods that have a cgroup in any tree."""
        return frozenset(uid for quality in CLASSES for uid in self._listed(quality, self._hierarchies.trees))

    async def _hold_classes(self) -> None:
        """Have systemd create the slices of the classes; the first pods wait for it. A class keeps its share as in
        ``prepare``."""
        if self._slices is None or self._are_classes_held:
            return
        async with self._weighing:
            await self._slices.loosen(self._path(self._classes[GUARANTEED]).name)
            for quality, name in self._classes.items():
                settings = () if quality == BURSTABLE else self._class_settings(quality)
                await self._slices.hold(self._path(name).name, settings)
            self.prepare()
            self._are_classes_held = True

    def _class_settings(self, quality: str) -> tuple[Setting, ...]:
        return class_settings(quality, self._facts, self._cpus)

    async def _bring(self, name: CgroupName, settings: Sequence[Setting]) -> None:
        if self._slices is not None:
            await self._slices.hold(self._path(name).name, settings)
        self._make(name)
        await self._write_all(self._path(name), settings)

    async def _write_all(self, path: Path, settings: Iterable[Setting]) -> None:
        for one in settings:
            if self._lowers(path, one):
                await self._lowering.run(partial(self._set, path, [one]), str(path / one.file))
            else:
                self._set(path, [one])

    def _lowers(self, path: Path, one: Setting) -> bool:
        """True if the kernel may have to free memory for the new value. A value that it only rounded is not lower."""
        if one.file not in MEMORY_LIMITS or one.controller not in self._hierarchies.of or not one.value.isdigit():
            return False
        now = (self._hierarchies.of[one.controller] / path / one.file).read_text().strip()
        return now == "max" or int(one.value) < int(now)

    async def _weigh(self) -> None:
        """Set the classes to the sums of their pods' requests, one after the other. No value is lowered while pods from
        before the start of this process are not ensured yet."""
        async with self._weighing:
            snapshot = dict(self._asked)  # other tasks may change it meanwhile, and then call this again
            wanted = class_sums(snapshot.values(), self._facts)
            tree = self._hierarchies.of["cpu"]
            are_known = all(self._listed(quality, [tree]) <= snapshot.keys() for quality in wanted)
            for quality, settings in wanted.items():
                name = self._classes[quality]
                await self._bring(name, [one for one in settings if are_known or self._is_more(name, one)])
            self._weighed = snapshot if are_known else None

    def _is_more(self, name: CgroupName, one: Setting) -> bool:
        now = (self._hierarchies.of[one.controller] / self._path(name) / one.file).read_text().strip()
        return now != "max" and int(one.value) > int(now)

    def _path(self, name: CgroupName) -> Path:
        return Path(*parts(name, self._facts.cgroup_driver))

    def _listed(self, quality: str, trees: Iterable[Path]) -> set[str]:
        found: set[str] = set()
        for tree in trees:
            for name in children(tree / self._path(self._classes[quality])):
                uid = uid_of(name, self._facts.cgroup_driver)
                if uid and not uid_problem(uid):
                    found.add(uid)
        return found

    def _paths(self, uid: str) -> list[Path]:
        """Return the pod's possible cgroup paths, one for each class."""
        return [self._path(cgroup_below(name, uid)) for name in self._classes.values()]

    def _of_pod(self, uid: str) -> list[Path]:
        paths = self._paths(uid)
        return [tree / path for path in paths for tree in self._hierarchies.trees if (tree / path).is_dir()]

    def _units(self, uid: str, slices: Slices) -> list[str]:
        """Return the pod's slices. If an earlier wait timed out and systemd removed the slice since, the slice has no
        directory but is still known."""
        there = {directory.name for directory in self._of_pod(uid)}
        return [path.name for path in self._paths(uid) if path.name in there or slices.is_known(path.name)]

    def _make(self, name: CgroupName) -> None:
        """Create the cgroup and its ancestors, in every tree with one of our controllers."""
        for tree in dict.fromkeys(self._hierarchies.of.values()):
            path = self._path(name)
            if self._hierarchies.version == 1 and (tree / path).is_dir():
                continue  # saves system calls: each sync of a pod comes here, and nearly always the cgroup exists
            directory = tree
            for part in path.parts:
                if self._hierarchies.version == 2:
                    hand_down(directory, self._hierarchies.of)
                directory /= part
                directory.mkdir(mode=0o755, exist_ok=True)

    def _set(self, path: Path, settings: Iterable[Setting]) -> None:
        for controller, file, value in settings:
            if controller in self._hierarchies.of:
                _write(self._hierarchies.of[controller] / path / file, value)


def _limits_swap(hierarchies: Hierarchies) -> bool:
    """True if the kernel can limit swap. In version 2 only the cgroups below the root have the file."""
    tree = hierarchies.of["memory"]
    names = ("memory.swap.max", "*/memory.swap.max") if hierarchies.version == 2 else ("memory.memsw.limit_in_bytes",)
    return any(any(tree.glob(name)) for name in names)


def hand_down(directory: Path, controllers: Iterable[str]) -> None:
    """Enable controllers for the children of a v2 cgroup. By cgroup-v2's rule "no internal processes" it must not
    contain processes itself."""
    file = directory / "cgroup.subtree_control"
    missing = [name for name in controllers if name not in file.read_text().split()]
    if missing:
        file.write_text(" ".join(f"+{name}" for name in missing))


def _write(file: Path, value: str) -> None:
    """Write a value if it differs. The kernel may show a rounded value, which is then written again; that costs a
    system call and changes nothing."""
    try:
        is_set = file.read_text().strip() == value
    except FileNotFoundError:
        if RESERVED_PAGES in file.name:
            return  # an older kernel, which limits huge pages only when they are touched
        raise
    if not is_set:
        file.write_text(value)
