"""Pod cgroups on a made-up cgroup tree: plain directories, whose files go with them as a cgroup's do.

What the real kernel says to the same calls is told by ``tests/live/test_pod_cgroups.py``.
"""

import os
import re
import signal
from pathlib import Path

import pytest

from core.podkit import container, pod
from shell.cgroupkit import pretend_kernel
from trikubelet.core.containers import NodeFacts
from trikubelet.host.cgroups import CgroupfsPods, Hierarchies, NoPodCgroups, choose_cgroups, read_hierarchies
from trikubelet.model import k8s
from trikubelet.model.errors import CgroupFailed

GIB = 1024**3


def burstable(uid: str, cpu: str) -> k8s.Pod:
    needs = k8s.ResourceRequirements(requests={"cpu": cpu})
    return pod(container("a", resources=needs), meta={"uid": uid})


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_kernel(monkeypatch)


@pytest.fixture
def v1(kernel: None, tmp_path: Path) -> Hierarchies:
    trees = tuple(tmp_path / name for name in ("cpu", "memory", "freezer"))
    for tree in trees:
        tree.mkdir()
    return Hierarchies(1, {"cpu": trees[0], "memory": trees[1]}, trees)


@pytest.fixture
def v2(kernel: None, tmp_path: Path) -> Hierarchies:
    tree = tmp_path / "unified"
    tree.mkdir()
    return Hierarchies(2, dict.fromkeys(("cpu", "memory", "pids"), tree), (tree,))


def made(hierarchies: Hierarchies, **facts: object) -> CgroupfsPods:
    node = NodeFacts("n", cgroup_version=hierarchies.version, allocatable={"cpu": 2000, "memory": GIB}, **facts)  # type: ignore[arg-type]
    cgroups = CgroupfsPods(hierarchies, node)
    cgroups.prepare()
    return cgroups


def test_a_pod_gets_a_cgroup_with_its_values_in_every_tree_of_a_controller(v1: Hierarchies, tmp_path: Path) -> None:
    made(v1).ensure(burstable("u", "500m"))

    assert "512" == (tmp_path / "cpu/kubepods/burstable/podu/cpu.shares").read_text()
    assert "-1" == (tmp_path / "memory/kubepods/burstable/podu/memory.limit_in_bytes").read_text()
    assert not (tmp_path / "freezer/kubepods").exists()


def test_the_one_tree_of_version_2_hands_its_controllers_down(v2: Hierarchies, tmp_path: Path) -> None:
    made(v2).ensure(burstable("u", "500m"))

    assert "20" == (tmp_path / "unified/kubepods/burstable/podu/cpu.weight").read_text()
    for part in ("", "kubepods", "kubepods/burstable"):
        assert "+cpu +memory +pids" == (tmp_path / "unified" / part / "cgroup.subtree_control").read_text()
    assert "" == (tmp_path / "unified/kubepods/burstable/podu/cgroup.subtree_control").read_text()


def test_the_classes_are_made_at_the_start_and_all_pods_limited(v1: Hierarchies, tmp_path: Path) -> None:
    made(v1)

    assert str(GIB) == (tmp_path / "memory/kubepods/memory.limit_in_bytes").read_text()
    assert ("2048", "2", "2") == tuple(
        (tmp_path / "cpu/kubepods" / part / "cpu.shares").read_text() for part in ("", "burstable", "besteffort")
    )


def test_the_burstable_class_weighs_the_sum_of_its_pods(v1: Hierarchies, tmp_path: Path) -> None:
    share = tmp_path / "cpu/kubepods/burstable/cpu.shares"
    cgroups = made(v1)
    cgroups.ensure(burstable("u", "500m"))
    cgroups.ensure(burstable("v", "1500m"))
    cgroups.ensure(burstable("v", "1500m"))
    assert "2048" == share.read_text()

    cgroups.remove("v")
    assert "512" == share.read_text()


def test_after_a_restart_the_class_loses_nothing_until_all_its_pods_are_known(v1: Hierarchies, tmp_path: Path) -> None:
    share = tmp_path / "cpu/kubepods/burstable/cpu.shares"
    before = made(v1)
    before.ensure(burstable("u", "500m"))
    before.ensure(burstable("v", "1500m"))

    after = made(v1)
    assert "2048" == share.read_text()
    after.ensure(burstable("u", "500m"))
    assert "2048" == share.read_text()
    after.ensure(burstable("v", "500m"))
    assert "1024" == share.read_text()


def test_what_the_runtime_left_in_other_trees_goes_with_the_pod(v1: Hierarchies, tmp_path: Path) -> None:
    cgroups = made(v1)
    cgroups.ensure(burstable("u", "1"))
    for part in ("", "kubepods", "kubepods/burstable", "kubepods/burstable/podu", "kubepods/burstable/podu/box"):
        (tmp_path / "freezer" / part).mkdir(exist_ok=True)
    assert frozenset({"u"}) == cgroups.leftovers()

    cgroups.remove("u")
    cgroups.remove("u")

    assert frozenset() == cgroups.leftovers()
    assert not list(tmp_path.rglob("podu"))
    assert (tmp_path / "freezer/kubepods/burstable").exists()


def test_what_is_left_in_a_pods_cgroup_is_killed_and_it_goes_once_that_has_ended(
    v1: Hierarchies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append((pid, number)))
    cgroups = made(v1)
    cgroups.ensure(burstable("u", "1"))
    procs = tmp_path / "cpu/kubepods/burstable/podu/cgroup.procs"
    procs.write_text("4000001\n0\n")

    with pytest.raises(CgroupFailed, match=r"cannot be removed yet: .*busy"):
        cgroups.remove("u")
    assert [(4000001, signal.SIGKILL)] == killed

    procs.write_text("")
    cgroups.remove("u")
    assert frozenset() == cgroups.leftovers()


def test_the_agent_never_kills_itself(v1: Hierarchies, tmp_path: Path) -> None:
    cgroups = made(v1)
    cgroups.ensure(burstable("u", "1"))
    (tmp_path / "cpu/kubepods/burstable/podu/cgroup.procs").write_text(f"{os.getpid()}\n")

    with pytest.raises(CgroupFailed, match="this agent itself is in it"):
        cgroups.remove("u")


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

    assert Hierarchies(2, {"cpu": tmp_path, "memory": tmp_path}, (tmp_path,)) == read_hierarchies(
        tmp_path / "mountinfo"
    )


def test_a_machine_without_cgroups_has_none(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text("")

    assert Hierarchies(0, {}, ()) == read_hierarchies(tmp_path / "mountinfo")


def test_the_choice_takes_what_is_asked_for_and_can_be_had(v1: Hierarchies) -> None:
    choice = choose_cgroups(NodeFacts("n"), v1)

    assert isinstance(choice.cgroups, CgroupfsPods)
    assert (1, True, "") == (choice.facts.cgroup_version, choice.facts.cgroups_managed, choice.why_not)


@pytest.mark.parametrize(
    ("parents_are_named", "why", "facts", "hierarchies"),
    [
        pytest.param(False, "cgroupsPerQOS is off", NodeFacts("n", cgroups_managed=False), None, id="off"),
        pytest.param(True, "systemd", NodeFacts("n", cgroup_driver="systemd"), None, id="systemd makes its slices"),
        pytest.param(
            False, "no cgroup controller cpu and no memory", NodeFacts("n"), Hierarchies(0, {}, ()), id="none"
        ),
        pytest.param(
            False,
            "cannot be made: .*No such file",
            NodeFacts("n"),
            Hierarchies(1, dict.fromkeys(("cpu", "memory"), Path("/nowhere")), (Path("/nowhere"),)),
            id="not writable",
        ),
    ],
)
def test_the_choice_says_why_pods_have_no_cgroups_of_their_own(
    parents_are_named: bool, why: str, facts: NodeFacts, hierarchies: Hierarchies | None, v1: Hierarchies
) -> None:
    choice = choose_cgroups(facts, hierarchies or v1)

    assert isinstance(choice.cgroups, NoPodCgroups)
    assert parents_are_named == choice.facts.cgroups_managed
    assert re.search(why, choice.why_not)
