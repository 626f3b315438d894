"""Moving processes to the cgroups of the node's parts, in made-up trees of both versions."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from trikubelet.host.part_cgroups import PartCgroups

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ACCOUNTING = ("cpu", "cpuacct", "memory", "pids", "blkio")
PROGRAM, OWN, KERNEL_THREAD = 50, 60, 2


class Trees:
    """A machine's trees below a directory; ``names``: of the trees, with version 2 one."""

    def __init__(self, root: Path, version: int) -> None:
        self.root, self.version = root, version
        self.names = ("unified",) if version == 2 else (*ACCOUNTING, "cpuset", "systemd")
        lines = [f"1 1 0:1 / {root}/unified rw - cgroup2 cgroup2 rw"]
        if version == 1:
            lines = [f"1 1 0:1 / {root}/{name} rw - cgroup cgroup rw,{name}" for name in (*ACCOUNTING, "cpuset")]
            lines.append(f"1 1 0:1 / {root}/systemd rw - cgroup cgroup rw,name=systemd")
        (root / "mountinfo").write_text("\n".join(lines))
        for name in self.names:
            self.made(name, "", (1, KERNEL_THREAD, PROGRAM, OWN, 0))
        (root / "unified").mkdir(exist_ok=True)
        (root / "unified/cgroup.controllers").write_text("cpu memory pids io")
        (root / "unified/cgroup.subtree_control").write_text("")
        for pid in (1, PROGRAM, OWN):
            (root / f"proc/{pid}").mkdir(parents=True)
            (root / f"proc/{pid}/exe").symlink_to("/bin/true")

    def made(self, tree: str, path: str, pids: Iterable[int] = ()) -> None:
        """Make a cgroup with these processes. The kernel makes its files, so they must be there before."""
        directory = self.root / tree / path
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))

    def within(self, path: str) -> dict[str, list[int]]:
        """The processes that were moved to a cgroup, by tree."""
        files = ((name, self.root / name / path / "cgroup.procs") for name in self.names)
        return {name: [int(pid) for pid in file.read_text().split()] for name, file in files if file.is_file()}

    def cgroups(self) -> PartCgroups:
        return PartCgroups(self.root / "mountinfo", self.root / "proc")


@pytest.fixture(params=[1, 2])
def trees(request: pytest.FixtureRequest, tmp_path: Path) -> Trees:
    found = Trees(tmp_path, request.param)
    for name in found.names:
        if name in (*ACCOUNTING, "unified"):
            found.made(name, "node/part")
            (found.root / name / "node/cgroup.subtree_control").write_text("")
    return found


def accounting(trees: Trees) -> tuple[str, ...]:
    return ("unified",) if trees.version == 2 else ACCOUNTING


def test_the_agent_moves_to_its_cgroup_in_every_tree_that_accounts_for_usage(trees: Trees) -> None:
    trees.cgroups().enter("/node/part")
    trees.cgroups().enter("node/part/")  # it is there already

    assert {name: [os.getpid()] for name in accounting(trees)} == trees.within("node/part")


def test_other_trees_count_where_the_cgroup_exists_already(tmp_path: Path) -> None:
    trees = Trees(tmp_path, 1)
    for name in (*ACCOUNTING, "cpuset", "systemd"):
        trees.made(name, "part")
    trees.cgroups().enter("/part")

    wanted = {name: [os.getpid()] for name in (*ACCOUNTING, "cpuset")} | {"systemd": []}
    assert wanted == trees.within("part"), "systemd stops units by its own tree"


def test_processes_leave_the_root_cgroup_but_for_init_and_kernel_threads(trees: Trees) -> None:
    trees.cgroups().gather("/node/part")

    assert {name: [PROGRAM, OWN] for name in accounting(trees)} == trees.within("node/part")


def test_a_missing_cgroup_is_made_with_its_controllers(trees: Trees) -> None:
    trees.cgroups().enter("/fresh")  # the file appears with the first process: these trees are plain directories

    assert {name: [os.getpid()] for name in accounting(trees)} == trees.within("fresh")
    if trees.version == 2:
        assert "+cpu +memory +pids +io" == (trees.root / "unified/cgroup.subtree_control").read_text()


def test_a_cgroup_that_cannot_be_used_is_reported_after_all_processes_were_tried(trees: Trees) -> None:
    broken = trees.root / accounting(trees)[0] / "node/part/cgroup.procs"
    broken.unlink()
    broken.mkdir()
    with pytest.raises(IsADirectoryError):
        trees.cgroups().gather("/node/part")

    assert {name: [PROGRAM, OWN] for name in accounting(trees)[1:]} == {
        name: pids for name, pids in trees.within("node/part").items() if pids
    }
