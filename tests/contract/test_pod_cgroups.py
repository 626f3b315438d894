"""The contract of ``ports.PodCgroups``, held by a made-up cgroup tree and by the host in memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from core.podkit import container, pod
from shell.cgroupkit import pretend_kernel
from trikubelet.core.containers import NodeFacts
from trikubelet.core.containers.cgroups import pod_cgroup
from trikubelet.host.cgroups import Hierarchies, KernelPodCgroups
from trikubelet.model import k8s
from trikubelet.model.errors import CgroupFailed
from trikubelet.testing.memory_host import MemoryPodCgroups

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.ports import PodCgroups

UNKILLABLE = "0"  # as the kernel shows a process of another PID namespace


@dataclass(frozen=True)
class Subject:
    """The cgroups under test. ``occupy`` puts a process that does not end into a pod's, ``vacate`` ends it."""

    cgroups: PodCgroups
    occupy: Callable[[k8s.Pod], object]
    vacate: Callable[[k8s.Pod], object]


def on_disk(tmp_path: Path) -> Subject:
    tree = tmp_path / "unified"
    tree.mkdir()
    cgroups = KernelPodCgroups(Hierarchies(2, {"cpu": tree, "memory": tree}, (tree,)), NodeFacts("n", cgroup_version=2))
    cgroups.prepare()

    def processes(it: k8s.Pod) -> Path:
        return tree / Path(*pod_cgroup(it)) / "cgroup.procs"

    return Subject(cgroups, lambda it: processes(it).write_text(UNKILLABLE), lambda it: processes(it).write_text(""))


def in_memory(_: Path) -> Subject:
    cgroups = MemoryPodCgroups()
    return Subject(
        cgroups, lambda it: cgroups.busy.add(it.metadata.uid), lambda it: cgroups.busy.discard(it.metadata.uid)
    )


@pytest.fixture(params=[on_disk, in_memory])
def subject(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Subject:
    pretend_kernel(monkeypatch)
    made: Subject = request.param(tmp_path)
    return made


LIMITED = k8s.ResourceRequirements(limits={"cpu": "1", "memory": "1Gi"})
PODS = (
    pod(container("a", resources=LIMITED), meta={"uid": "guaranteed"}),
    pod(container("a", resources=k8s.ResourceRequirements(requests={"cpu": "1"})), meta={"uid": "burstable"}),
    pod("a", meta={"uid": "best-effort"}),
)


async def test_pods_of_every_class_have_a_cgroup_once_it_is_ensured(subject: Subject) -> None:
    assert frozenset() == subject.cgroups.leftovers()
    for it in (*PODS, *PODS):
        await subject.cgroups.ensure(it)

    assert {it.metadata.uid for it in PODS} == subject.cgroups.leftovers()


async def test_all_pods_can_be_limited_before_and_after_there_are_any(subject: Subject) -> None:
    assert await subject.cgroups.limit_all()
    await subject.cgroups.ensure(PODS[0])
    assert await subject.cgroups.limit_all()
    await subject.cgroups.allow_online_cpus()


async def test_removal_is_idempotent_and_touches_no_other_pod(subject: Subject) -> None:
    for it in PODS:
        await subject.cgroups.ensure(it)
    await subject.cgroups.remove("burstable")
    await subject.cgroups.remove("burstable")
    await subject.cgroups.remove("never-seen")

    assert {"guaranteed", "best-effort"} == subject.cgroups.leftovers()


@pytest.mark.parametrize("uid", ["..", "/../../system.slice", ""])
async def test_what_is_no_uid_has_no_cgroup(uid: str, subject: Subject) -> None:
    """The runtime's labels say whose what runs is, and anybody may have written them."""
    with pytest.raises(ValueError, match="is no UID"):
        await subject.cgroups.remove(uid)


async def test_one_in_which_something_lives_stays_until_that_has_ended(subject: Subject) -> None:
    it = PODS[0]
    await subject.cgroups.ensure(it)
    subject.occupy(it)
    with pytest.raises(CgroupFailed, match="cannot remove the cgroup of pod guaranteed yet"):
        await subject.cgroups.remove("guaranteed")
    assert {"guaranteed"} == subject.cgroups.leftovers()

    subject.vacate(it)
    await subject.cgroups.remove("guaranteed")
    assert frozenset() == subject.cgroups.leftovers()


async def test_a_pod_that_comes_again_has_one_again(subject: Subject) -> None:
    await subject.cgroups.ensure(PODS[0])
    await subject.cgroups.remove("guaranteed")
    await subject.cgroups.ensure(PODS[0])

    assert {"guaranteed"} == subject.cgroups.leftovers()
