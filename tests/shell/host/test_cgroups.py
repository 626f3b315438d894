"""Pod cgroups on a made-up cgroup tree: plain directories, whose files go with them as a cgroup's do.

What the real kernel says to the same calls is told by ``tests/live/test_pod_cgroups.py``.
"""

import errno
import inspect
import itertools
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from core.podkit import container, pod
from shell.cgroupkit import pretend_kernel
from shell.slicekit import SlowSlices, Systemctl
from trikubelet.core.containers import NodeFacts
from trikubelet.core.containers.memory_rules import MemoryRules
from trikubelet.core.containers.reserved_cgroups import ReservedCgroup
from trikubelet.host import cgroup_removal
from trikubelet.host.cgroups import Hierarchies, KernelPodCgroups, NoPodCgroups, choose_cgroups, read_hierarchies
from trikubelet.model import k8s
from trikubelet.model.errors import CgroupFailed

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

GIB = 1024**3


def burstable(uid: str, cpu: str, memory: str = "0") -> k8s.Pod:
    needs = k8s.ResourceRequirements(requests={"cpu": cpu, "memory": memory})
    return pod(container("a", resources=needs), meta={"uid": uid})


def guaranteed(uid: str, memory: str = "1Gi") -> k8s.Pod:
    needs = k8s.ResourceRequirements(limits={"cpu": "1", "memory": memory})
    return pod(container("a", resources=needs), meta={"uid": uid})


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_kernel(monkeypatch)


@pytest.fixture
def v1(kernel: None, tmp_path: Path) -> Hierarchies:
    return trees_of_v1(tmp_path)


def trees_of_v1(place: Path) -> Hierarchies:
    trees = tuple(place / name for name in ("cpu", "memory", "freezer"))
    for tree in trees:
        tree.mkdir(parents=True)
    return Hierarchies(1, {"cpu": trees[0], "memory": trees[1]}, trees)


@pytest.fixture
def v2(kernel: None, tmp_path: Path) -> Hierarchies:
    tree = tmp_path / "unified"
    tree.mkdir()
    return Hierarchies(2, dict.fromkeys(("cpu", "memory", "pids"), tree), (tree,))


def made(hierarchies: Hierarchies, cpus: Callable[[], str] = str, **facts: object) -> KernelPodCgroups:
    node = NodeFacts("n", cgroup_version=hierarchies.version, pods_limit={"cpu": 2000, "memory": GIB}, **facts)  # type: ignore[arg-type]
    cgroups = KernelPodCgroups(hierarchies, node, online_cpus=cpus)
    cgroups.prepare()
    return cgroups


async def test_a_pod_gets_a_cgroup_with_its_values_in_every_tree_of_a_controller(
    v1: Hierarchies, tmp_path: Path
) -> None:
    await made(v1).ensure(burstable("u", "500m"))

    assert "512" == (tmp_path / "cpu/kubepods/burstable/podu/cpu.shares").read_text()
    assert "-1" == (tmp_path / "memory/kubepods/burstable/podu/memory.limit_in_bytes").read_text()
    assert not (tmp_path / "freezer/kubepods").exists()


async def test_the_one_tree_of_version_2_hands_its_controllers_down(v2: Hierarchies, tmp_path: Path) -> None:
    await made(v2).ensure(burstable("u", "500m"))

    assert "20" == (tmp_path / "unified/kubepods/burstable/podu/cpu.weight").read_text()
    for part in ("", "kubepods", "kubepods/burstable"):
        assert "+cpu +memory +pids" == (tmp_path / "unified" / part / "cgroup.subtree_control").read_text()
    assert "" == (tmp_path / "unified/kubepods/burstable/podu/cgroup.subtree_control").read_text()


async def test_while_a_pod_is_resized_its_cgroup_has_the_limits_of_both(
    v1: Hierarchies, v2: Hierarchies, tmp_path: Path
) -> None:
    for hierarchies, file in (
        (v1, "memory/kubepods/podu/memory.limit_in_bytes"),
        (v2, "unified/kubepods/podu/memory.max"),
    ):
        cgroups = made(hierarchies)
        found = []
        for it, beside in (
            (guaranteed("u"), None),
            (guaranteed("u", "1Mi"), guaranteed("u")),
            (guaranteed("u", "2Gi"), guaranteed("u")),
            (guaranteed("u", "1Mi"), None),
        ):
            await cgroups.ensure(it, beside=beside)
            found.append((tmp_path / file).read_text())

        assert [str(GIB), str(GIB), str(2 * GIB), str(1 << 20)] == found


async def test_slowly_lowered_limit_delays_no_other_pod(
    v2: Hierarchies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cgroups = made(v2)
    await cgroups.ensure(guaranteed("u"))
    begun, may_end = trio.Event(), threading.Event()
    at_once = Path.write_text

    def write_text(self: Path, text: str) -> int:
        if self.name == "memory.max" and self.parent.name == "podu":
            trio.from_thread.run_sync(begun.set)
            assert may_end.wait(60)
        return at_once(self, text)

    monkeypatch.setattr(Path, "write_text", write_text)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cgroups.ensure, guaranteed("u", "512Mi"))
            await begun.wait()
            await cgroups.ensure(guaranteed("v", "1Gi"))
            nursery.cancel_scope.cancel()
        with pytest.raises(CgroupFailed, match="an earlier operation has not ended yet"):
            await cgroups.ensure(guaranteed("u", "256Mi"))
    finally:
        may_end.set()

    assert str(GIB) == (tmp_path / "unified/kubepods/podv/memory.max").read_text()


async def test_a_limit_that_the_kernel_rounded_or_that_is_none_is_written_without_a_thread(
    v1: Hierarchies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cgroups = made(v1)
    await cgroups.ensure(guaranteed("u", "100M"))
    limit = tmp_path / "memory/kubepods/podu/memory.limit_in_bytes"
    assert "100000000" == limit.read_text()
    limit.write_text("99999744")
    monkeypatch.setattr(cgroups, "_lowering", None)

    await cgroups.ensure(guaranteed("u", "100M"))
    await cgroups.ensure(burstable("v", "1"))

    assert "100000000" == limit.read_text()


def test_the_classes_are_made_at_the_start_and_all_pods_limited(v1: Hierarchies, tmp_path: Path) -> None:
    made(v1)

    assert str(GIB) == (tmp_path / "memory/kubepods/memory.limit_in_bytes").read_text()
    assert ("2048", "2", "2") == tuple(
        (tmp_path / "cpu/kubepods" / part / "cpu.shares").read_text() for part in ("", "burstable", "besteffort")
    )


async def test_limits_of_all_pods_that_were_changed_by_hand_are_restored_at_the_start(
    v2: Hierarchies, tmp_path: Path
) -> None:
    made(v2)
    all_pods = tmp_path / "unified/kubepods"
    expected = {
        "memory.max": str(GIB),
        "memory.high": "max",
        "memory.oom.group": "0",
        "pids.max": "max",
        "cpu.weight": "79",
        "cpu.max": "max",
    }
    for file in expected:
        (all_pods / file).write_text("7")

    assert await made(v2).limit_all()

    assert expected == {file: (all_pods / file).read_text() for file in expected}


SYSTEM = ReservedCgroup("System", "/system.slice", {"cpu": 500, "memory": GIB})


async def test_cgroup_with_reserved_resources_is_limited_and_never_made(v2: Hierarchies, tmp_path: Path) -> None:
    cgroups = made(v2)
    place = tmp_path / "unified/system.slice"
    with pytest.raises(CgroupFailed, match=r"unified/system\.slice: no such cgroup \(create it"):
        await cgroups.limit_reserved(SYSTEM)
    assert not place.exists()

    place.mkdir()
    assert await cgroups.limit_reserved(SYSTEM)
    assert (str(GIB), "20", "max") == tuple(
        (place / file).read_text() for file in ("memory.max", "cpu.weight", "pids.max")
    )
    with pytest.raises(CgroupFailed, match="no resources of the kind to enforce are reserved"):
        await cgroups.limit_reserved(replace(SYSTEM, amounts={}))


async def test_reserved_cgroup_needs_every_controller_that_limits_it(v1: Hierarchies, tmp_path: Path) -> None:
    cgroups = made(v1)
    (tmp_path / "cpu/system.slice").mkdir()
    with pytest.raises(CgroupFailed, match=r"memory/system\.slice: no such cgroup"):
        await cgroups.limit_reserved(SYSTEM)
    with pytest.raises(CgroupFailed, match="the machine has no cgroup controller pids"):
        await cgroups.limit_reserved(replace(SYSTEM, amounts={"pid": 100}))
    await cgroups.limit_reserved(replace(SYSTEM, only_compressible=True))
    assert "512" == (tmp_path / "cpu/system.slice/cpu.shares").read_text()


async def test_slice_with_reserved_resources_is_changed_and_not_started(v2: Hierarchies, tmp_path: Path) -> None:
    systemctl = Systemctl(tmp_path)
    cgroups = KernelPodCgroups(v2, NodeFacts("n", cgroup_version=2, cgroup_driver="systemd"), systemctl.slices)
    (tmp_path / "unified/system.slice").mkdir()
    await cgroups.limit_reserved(SYSTEM)

    assert [f"set-property --runtime system.slice CPUWeight=20 MemoryMax={GIB}"] == systemctl.asked()
    assert str(GIB) == (tmp_path / "unified/system.slice/memory.max").read_text()


async def test_all_pods_may_use_the_cpus_that_come_online_and_values_set_by_hand_stay(
    v2: Hierarchies, tmp_path: Path
) -> None:
    online = ["0-1"]
    all_pods = tmp_path / "unified/kubepods"
    hierarchies = replace(v2, of={**v2.of, "cpuset": tmp_path / "unified"})
    cgroups = made(hierarchies, lambda: online[-1])
    await cgroups.limit_all()
    assert "0-1" == (all_pods / "cpuset.cpus").read_text()

    (all_pods / "cpuset.cpus").write_text("1")
    await cgroups.allow_online_cpus()
    assert "1" == (all_pods / "cpuset.cpus").read_text()

    online.append("0-3")
    await cgroups.allow_online_cpus()
    assert "0-3" == (all_pods / "cpuset.cpus").read_text()
    assert "" == (all_pods / "burstable/cpuset.cpus").read_text()
    assert "cpuset" in (all_pods / "cgroup.subtree_control").read_text()


async def test_cpus_that_the_kernel_refuses_are_an_error(
    v2: Hierarchies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cgroups = made(replace(v2, of={**v2.of, "cpuset": tmp_path / "unified"}), lambda: "0-1")
    monkeypatch.setattr(cgroups, "_cpus", "0")
    (tmp_path / "unified/kubepods/cpuset.cpus").unlink()
    (tmp_path / "unified/kubepods/cpuset.cpus").mkdir()
    with pytest.raises(CgroupFailed, match=r"cannot give CPUs 0-1 to the cgroup of all pods: .*directory"):
        await cgroups.allow_online_cpus()


async def test_reservations_of_huge_pages_are_limited_where_the_kernel_counts_them(
    v2: Hierarchies, tmp_path: Path
) -> None:
    hierarchies = replace(v2, of={**v2.of, "hugetlb": tmp_path / "unified"})
    cgroups = made(hierarchies, huge_page_sizes=(2 * 1024**2,))
    place = tmp_path / "unified/kubepods/podu"
    place.mkdir()
    for file in ("hugetlb.2MB.max", "hugetlb.2MB.rsvd.max"):
        (place / file).write_text("max")
    await cgroups.ensure(guaranteed("u"))
    assert ("0", "0") == tuple((place / f"hugetlb.2MB.{file}").read_text() for file in ("max", "rsvd.max"))

    older = tmp_path / "unified/kubepods/podv"
    older.mkdir()
    (older / "hugetlb.2MB.max").write_text("max")
    await cgroups.ensure(guaranteed("v"))
    assert not (older / "hugetlb.2MB.rsvd.max").exists()


async def test_a_lower_limit_that_the_kernel_refuses_keeps_the_cgroups_and_is_an_error(
    v1: Hierarchies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(v1)
    (tmp_path / "memory/kubepods/memory.limit_in_bytes").write_text(str(2 * GIB))
    at_once = Path.write_text

    def write_text(self: Path, text: str) -> int:
        if self.name == "memory.limit_in_bytes" and self.parent.name == "kubepods":
            raise OSError(errno.EBUSY, "Device or resource busy")
        return at_once(self, text)

    monkeypatch.setattr(Path, "write_text", write_text)
    cgroups = made(v1)  # an agent that starts with a larger reservation

    with pytest.raises(CgroupFailed, match=r"cannot limit the cgroup of all pods: .*busy"):
        await cgroups.limit_all()
    await cgroups.ensure(burstable("u", "500m"))


async def test_the_burstable_class_weighs_the_sum_of_its_pods(v1: Hierarchies, tmp_path: Path) -> None:
    share = tmp_path / "cpu/kubepods/burstable/cpu.shares"
    cgroups = made(v1)
    await cgroups.ensure(burstable("u", "500m"))
    await cgroups.ensure(burstable("v", "1500m"))
    await cgroups.ensure(burstable("v", "1500m"))
    assert "2048" == share.read_text()

    await cgroups.remove("v")
    assert "512" == share.read_text()


async def test_after_a_restart_the_class_loses_nothing_until_all_its_pods_are_known(
    v1: Hierarchies, tmp_path: Path
) -> None:
    share = tmp_path / "cpu/kubepods/burstable/cpu.shares"
    before = made(v1)
    await before.ensure(burstable("u", "500m"))
    await before.ensure(burstable("v", "1500m"))

    after = made(v1)
    assert "2048" == share.read_text()
    await after.ensure(burstable("u", "500m"))
    assert "2048" == share.read_text()
    await after.ensure(burstable("v", "500m"))
    assert "1024" == share.read_text()


async def test_after_a_restart_a_pod_that_is_removed_and_never_known_leaves_its_class(
    v1: Hierarchies, tmp_path: Path
) -> None:
    before = made(v1)
    await before.ensure(burstable("u", "500m"))
    await before.ensure(burstable("v", "1500m"))

    after = made(v1)
    await after.ensure(burstable("u", "500m"))
    await after.remove("v")

    assert "512" == (tmp_path / "cpu/kubepods/burstable/cpu.shares").read_text()


async def test_what_pods_reserved_is_reserved_above_them_and_lost_only_once_all_are_known(
    v2: Hierarchies, tmp_path: Path
) -> None:
    tree = tmp_path / "unified/kubepods"
    reserved = [tree / part for part in ("memory.min", "memory.low", "burstable/memory.low")]
    rules = MemoryRules(reserves=True)
    before = made(v2, memory=rules)
    await before.ensure(guaranteed("u"))
    await before.ensure(burstable("v", "1", memory="1Gi"))
    assert [str(2 * GIB), str(GIB), str(GIB)] == [file.read_text() for file in reserved]
    assert str(GIB) == (tree / "podu/memory.min").read_text()

    after = made(v2, memory=rules)
    await after.ensure(burstable("v", "1"))
    assert [str(2 * GIB), str(GIB), str(GIB)] == [file.read_text() for file in reserved]
    await after.ensure(guaranteed("u"))
    assert [str(GIB), "0", "0"] == [file.read_text() for file in reserved]


def test_swap_is_controlled_where_the_kernel_has_a_file_for_it(v1: Hierarchies, tmp_path: Path) -> None:
    assert not choose_cgroups(NodeFacts("n"), v1).facts.memory.swap_controlled
    (tmp_path / "memory/memory.memsw.limit_in_bytes").write_text("0")
    assert choose_cgroups(NodeFacts("n"), v1).facts.memory.swap_controlled


def test_in_version_2_the_file_is_looked_for_below_the_root(v2: Hierarchies) -> None:
    assert choose_cgroups(NodeFacts("n"), v2).facts.memory.swap_controlled


async def test_what_the_runtime_left_in_other_trees_goes_with_the_pod(v1: Hierarchies, tmp_path: Path) -> None:
    cgroups = made(v1)
    await cgroups.ensure(burstable("u", "1"))
    for part in ("", "kubepods", "kubepods/burstable", "kubepods/burstable/podu", "kubepods/burstable/podu/box"):
        (tmp_path / "freezer" / part).mkdir(exist_ok=True)
    assert frozenset({"u"}) == cgroups.leftovers()

    await cgroups.remove("u")
    await cgroups.remove("u")

    assert frozenset() == cgroups.leftovers()
    assert not [directory for directory, _, _ in os.walk(tmp_path) if directory.endswith("podu")]
    assert (tmp_path / "freezer/kubepods/burstable").exists()


async def test_what_is_left_in_a_pods_cgroup_is_killed_and_it_goes_once_that_has_ended(
    v1: Hierarchies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append((pid, number)))
    cgroups = made(v1)
    await cgroups.ensure(burstable("u", "1"))
    procs = tmp_path / "cpu/kubepods/burstable/podu/cgroup.procs"
    procs.write_text("4000001\n0\n")

    with pytest.raises(CgroupFailed, match=r"cannot remove the cgroup of pod .* yet: .*busy"):
        await cgroups.remove("u")
    assert [(4000001, signal.SIGKILL)] == killed

    procs.write_text("")
    await cgroups.remove("u")
    assert frozenset() == cgroups.leftovers()


@contextmanager
def little_stack(calls: int) -> Iterator[None]:
    """So many calls may be nested from here on, as if what is met were ten times as deep."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + calls)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


async def test_cgroups_that_a_container_nested_as_deep_as_it_could_are_emptied_and_removed(
    v1: Hierarchies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _: killed.append(pid))
    cgroups = made(v1)
    await cgroups.ensure(burstable("u", "1"))
    deepest = tmp_path / "cpu/kubepods/burstable/podu"
    for _ in range(120):
        deepest /= "d"
        deepest.mkdir()
    (deepest / "cgroup.procs").write_text("4000001\n")

    with little_stack(100):
        with pytest.raises(CgroupFailed, match="busy"):
            await cgroups.remove("u")
        assert [4000001] == killed

        (deepest / "cgroup.procs").write_text("")
        await cgroups.remove("u")
        assert frozenset() == cgroups.leftovers()


async def test_cgroups_that_a_container_made_as_many_as_it_could_are_removed_a_few_at_a_time(
    v1: Hierarchies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroup_removal, "PIECES_MAX", 5)
    many, done, at_turns = 50, [0], [0]

    def count(*_: object) -> None:
        done[0] += 1

    async def look_on() -> None:
        while True:
            await trio.lowlevel.checkpoint()
            at_turns.append(done[0])

    cgroups = made(v1)
    await cgroups.ensure(burstable("u", "1"))
    place = tmp_path / "cpu/kubepods/burstable/podu"
    (place / "cgroup.procs").write_text("\n".join(str(4_000_000 + one) for one in range(many)))
    monkeypatch.setattr(os, "kill", count)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(look_on)
        with pytest.raises(CgroupFailed, match="busy"):
            await cgroups.remove("u")
        assert many == done[0]

        (place / "cgroup.procs").write_text("")
        for one in range(many):
            (place / str(one)).mkdir()
        turns_before = len(at_turns)
        rmdir = Path.rmdir
        monkeypatch.setattr(Path, "rmdir", lambda path: (count(), rmdir(path)))
        await cgroups.remove("u")
        nursery.cancel_scope.cancel()

    assert frozenset() == cgroups.leftovers()
    # Twice: who looks on has his turn first in one round and last in the next. And at the end he has none any more.
    assert 3 * 5 >= max(after - before for before, after in itertools.pairwise([*at_turns, done[0]]))
    # Names are listed and each is looked into, by who kills and by who removes, and then it is removed.
    assert 5 * many // 5 - 1 <= len(at_turns) - turns_before


async def test_a_pod_that_comes_back_waits_until_what_was_there_is_removed(
    v1: Hierarchies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cgroups = made(v1)
    await cgroups.ensure(burstable("u", "1"))
    place = tmp_path / "cpu/kubepods/burstable/podu"
    monkeypatch.setattr(cgroup_removal, "PIECES_MAX", 5)
    for one in range(25):
        (place / str(one)).mkdir()
    with trio.CancelScope() as removal:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cgroups.remove, "u")
            for _ in range(2):  # it has begun, and has twenty turns to go
                await trio.lowlevel.checkpoint()
            with pytest.raises(CgroupFailed, match="the leftovers of its earlier instance are still being removed"):
                await cgroups.ensure(burstable("u", "1"))
            await cgroups.ensure(burstable("v", "1"))
            removal.cancel()

    await cgroups.ensure(burstable("u", "1"))
    assert frozenset({"u", "v"}) == cgroups.leftovers()


async def test_cgroups_that_go_while_they_are_looked_through_hold_up_nothing(
    v1: Hierarchies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cgroups = made(v1)
    await cgroups.ensure(burstable("u", "1"))
    place = tmp_path / "cpu/kubepods/burstable/podu"
    for one in ("a", "b"):
        (place / one).mkdir()
        (place / one / "cgroup.procs").write_text("4000001\n")

    def kill(*_: object) -> None:
        for one in ("a", "b"):
            (place / one / "cgroup.procs").write_text("")
            (place / one).rmdir()

    monkeypatch.setattr(os, "kill", kill)
    await cgroups.remove("u")
    assert frozenset() == cgroups.leftovers()


async def test_the_agent_never_kills_itself(v1: Hierarchies, tmp_path: Path) -> None:
    cgroups = made(v1)
    await cgroups.ensure(burstable("u", "1"))
    (tmp_path / "cpu/kubepods/burstable/podu/cgroup.procs").write_text(f"{os.getpid()}\n")

    with pytest.raises(CgroupFailed, match="this agent itself is in it"):
        await cgroups.remove("u")


MOUNTS_HYBRID = """\
30 25 0:26 / /sys/fs/cgroup ro,nosuid shared:4 - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw shared:5 - cgroup2 cgroup2 rw
32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:6 - cgroup cgroup rw,cpu,cpuacct
33 30 0:29 / /sys/fs/cgroup/memory rw shared:7 - cgroup cgroup rw,memory
34 30 0:30 / /sys/fs/cgroup/systemd rw shared:8 - cgroup cgroup rw,name=systemd
"""


def test_the_controllers_of_version_1_beside_an_empty_tree_of_version_2_are_version_1(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTS_HYBRID)

    found = read_hierarchies(tmp_path / "mountinfo")

    base = Path("/sys/fs/cgroup")
    assert (
        Hierarchies(
            1,
            {"cpu": base / "cpu,cpuacct", "memory": base / "memory"},
            (base / "cpu,cpuacct", base / "memory", base / "systemd", base / "unified"),
        )
        == found
    )


def test_version_2_is_what_its_root_says_it_controls(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory\n")
    (tmp_path / "mountinfo").write_text(f"31 30 0:27 / {tmp_path} rw shared:5 - cgroup2 cgroup2 rw\n")

    expected = Hierarchies(2, dict.fromkeys(("cpu", "memory", "cpuset"), tmp_path), (tmp_path,))
    assert expected == read_hierarchies(tmp_path / "mountinfo")


def test_a_machine_without_cgroups_has_none(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text("")

    assert Hierarchies(0, {}, ()) == read_hierarchies(tmp_path / "mountinfo")


def test_the_choice_takes_what_is_asked_for_and_can_be_had(v1: Hierarchies) -> None:
    choice = choose_cgroups(NodeFacts("n"), v1)

    assert isinstance(choice.cgroups, KernelPodCgroups)
    assert (1, True, "") == (choice.facts.cgroup_version, choice.facts.cgroups_managed, choice.why_not)


def test_huge_pages_are_limited_unasked_only_where_the_kernel_has_a_tree_for_it(v1: Hierarchies) -> None:
    facts = NodeFacts("n", huge_page_sizes=(2 * 1024**2,))
    with_tree = replace(v1, of={**v1.of, "hugetlb": v1.trees[0]})

    assert () == choose_cgroups(facts, v1).facts.huge_page_sizes
    assert facts.huge_page_sizes == choose_cgroups(facts, with_tree).facts.huge_page_sizes


@pytest.mark.parametrize(
    ("parents_are_named", "why", "facts", "hierarchies"),
    [
        pytest.param(False, "cgroupsPerQOS is off", NodeFacts("n", cgroups_managed=False), None, id="off"),
        pytest.param(True, "systemd", NodeFacts("n", cgroup_driver="systemd"), None, id="no systemd"),
        pytest.param(
            False, "no cgroup controller cpu and no memory", NodeFacts("n"), Hierarchies(0, {}, ()), id="none"
        ),
        pytest.param(
            False,
            "cannot create the cgroups of the QoS classes: .*No such file",
            NodeFacts("n"),
            Hierarchies(1, dict.fromkeys(("cpu", "memory"), Path("/nowhere")), (Path("/nowhere"),)),
            id="not writable",
        ),
    ],
)
def test_the_choice_says_why_pods_have_no_cgroups_of_their_own(
    parents_are_named: bool,
    why: str,
    facts: NodeFacts,
    hierarchies: Hierarchies | None,
    v1: Hierarchies,
    tmp_path: Path,
) -> None:
    choice = choose_cgroups(facts, hierarchies or v1, tmp_path)

    assert isinstance(choice.cgroups, NoPodCgroups)
    assert parents_are_named == choice.facts.cgroups_managed
    assert re.search(why, choice.why_not)


def test_where_systemd_runs_its_slices_are_made_when_there_is_a_pod(v1: Hierarchies, tmp_path: Path) -> None:
    (tmp_path / "run/systemd/system").mkdir(parents=True)

    choice = choose_cgroups(NodeFacts("n", cgroup_driver="systemd"), v1, tmp_path)

    assert isinstance(choice.cgroups, KernelPodCgroups)
    assert (True, "") == (choice.facts.cgroups_managed, choice.why_not)
    assert not (tmp_path / "cpu/kubepods.slice").exists()


async def test_with_the_systemd_driver_a_pods_cgroup_is_a_slice_that_systemd_was_told_of(
    v1: Hierarchies, tmp_path: Path
) -> None:
    systemctl = Systemctl(tmp_path)
    facts = NodeFacts("n", cgroup_version=1, cgroup_driver="systemd", pods_limit={"cpu": 2000})
    cgroups = KernelPodCgroups(v1, facts, systemctl.slices)
    await cgroups.ensure(burstable("a-b", "500m"))

    told = systemctl.asked()
    below = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda_b.slice"
    assert (systemctl.units / "kubepods-.slice.d").is_dir()
    started = ["kubepods", "kubepods-burstable", "kubepods-besteffort", "kubepods-burstable-poda_b"]
    assert [f"start {name}.slice" for name in started] == [line for line in told if line.startswith("start")]
    assert "set-property --runtime kubepods-burstable.slice CPUShares=512" == told[-1]
    for path in (below, "kubepods.slice/kubepods-burstable.slice"):
        assert "512" == (tmp_path / "cpu" / path / "cpu.shares").read_text()
    assert frozenset({"a-b"}) == cgroups.leftovers()

    await cgroups.ensure(burstable("a-b", "500m"))
    assert [] == systemctl.asked()
    await cgroups.remove("a-b")
    assert ["stop kubepods-burstable-poda_b.slice"] == systemctl.asked()[:1]
    assert frozenset() == cgroups.leftovers()


async def test_a_class_is_weighed_by_the_next_try_where_it_failed_in_the_first(v1: Hierarchies, tmp_path: Path) -> None:
    systemctl = Systemctl(tmp_path)
    facts = NodeFacts("n", cgroup_version=1, cgroup_driver="systemd", pods_limit={"cpu": 2000})
    cgroups = KernelPodCgroups(v1, facts, systemctl.slices)
    await cgroups.ensure(burstable("u", "500m"))
    await cgroups.ensure(burstable("v", "1500m"))
    systemctl.fail("Unit not loaded.")
    with pytest.raises(CgroupFailed, match=r"set-property --runtime kubepods-burstable\.slice CPUShares=512"):
        await cgroups.remove("v")
    systemctl.fail("")

    await cgroups.remove("v")

    assert "512" == (tmp_path / "cpu/kubepods.slice/kubepods-burstable.slice/cpu.shares").read_text()


class Slow:
    """A node with the systemd driver, where each command to systemd takes a second."""

    def __init__(self, place: Path) -> None:
        self._burstable = place / "cpu/kubepods.slice/kubepods-burstable.slice"
        hierarchies = trees_of_v1(place)
        self.slices = SlowSlices(place / "control", hierarchies.trees)
        facts = NodeFacts("n", cgroup_version=1, cgroup_driver="systemd", pods_limit={"cpu": 2000})
        self.cgroups = KernelPodCgroups(hierarchies, facts, self.slices)

    def pods(self) -> tuple[set[str], ...]:
        """Which pods have a slice, what systemd keeps of one, and a directory."""
        ends = (set[str](), set[str](), set[str]())
        kept = {path.name.removesuffix(".d") for path in self.slices.control.iterdir()}
        there = {path.name for path in self._burstable.iterdir()}
        for found, units in zip(ends, (self.slices.units, kept, there), strict=True):
            found |= {unit.split("-pod")[1].removesuffix(".slice") for unit in units if "-pod" in unit}
        return ends

    @property
    def share(self) -> str:
        return (self._burstable / "cpu.shares").read_text()


async def test_the_sum_of_the_last_pod_stands_however_long_that_of_an_earlier_one_took(
    kernel: None, tmp_path: Path, autojump_clock: MockClock
) -> None:
    node = Slow(tmp_path)
    await node.cgroups.ensure(pod(meta={"uid": "w"}))  # the classes are there
    node.slices.more_seconds = {"kubepods-burstable-podv.slice": 1.0, "kubepods-burstable.slice": 10.0}

    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.cgroups.ensure, burstable("u", "500m"))
        nursery.start_soon(node.cgroups.ensure, burstable("v", "1500m"))

    assert "2048" == node.share


async def test_an_ensure_that_is_cancelled_anywhere_is_made_up_for_by_the_next(
    kernel: None, tmp_path: Path, autojump_clock: MockClock
) -> None:
    for halves in itertools.count():
        node = Slow(tmp_path / str(halves))
        with trio.move_on_after(0.25 + halves / 2) as first:
            await node.cgroups.ensure(burstable("u", "500m"))
        await node.cgroups.ensure(burstable("u", "500m"))

        assert ({"u"}, {"u"}, {"u"}, "512") == (*node.pods(), node.share)
        if not first.cancelled_caught:
            break
    assert 9 <= halves // 2, "the classes' slices, the pod's, and the class's share"


async def test_a_remove_that_is_cancelled_anywhere_is_made_up_for_by_the_next(
    kernel: None, tmp_path: Path, autojump_clock: MockClock
) -> None:
    for halves in itertools.count():
        node = Slow(tmp_path / str(halves))
        await node.cgroups.ensure(burstable("u", "500m"))
        await node.cgroups.ensure(burstable("v", "1500m"))
        with trio.move_on_after(0.25 + halves / 2) as first:
            await node.cgroups.remove("v")
        await node.cgroups.remove("v")

        assert ({"u"}, {"u"}, {"u"}, "512") == (*node.pods(), node.share)
        if not first.cancelled_caught:
            break
    assert 2 <= halves // 2, "the pod's slice, and the class's share"
