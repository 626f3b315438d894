"""Pod cgroups against the real kernel, whichever version it has, below a root of this test's own. Needs root."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from core.podkit import container, pod
from live.kit import marked
from trikubelet.core.containers import NodeFacts
from trikubelet.core.containers.cgroup_values import Setting, pod_settings
from trikubelet.core.containers.cgroups import pod_cgroup
from trikubelet.host.cgroups import CgroupChoice, Hierarchies, choose_cgroups, read_hierarchies
from trikubelet.model import k8s
from trikubelet.model.errors import CgroupFailed

GIB = 1024**3
FULL = pod(
    container("a", resources=k8s.ResourceRequirements(limits={"cpu": "500m", "memory": "64Mi"})), meta={"uid": "full"}
)
SOME = pod(container("a", resources=k8s.ResourceRequirements(requests={"cpu": "250m"})), meta={"uid": "some"})


@pytest.fixture
def chosen(swept_machine: None) -> Iterator[tuple[CgroupChoice, Hierarchies]]:
    hierarchies = read_hierarchies()
    root = marked.name()
    facts = NodeFacts("n", cgroup_root=f"/{root}", allocatable={"cpu": 1000, "memory": GIB}, pod_pids_max=50)
    try:
        for tree in dict.fromkeys(hierarchies.of.values()):
            (tree / root).mkdir()
        yield choose_cgroups(facts, hierarchies), hierarchies
    finally:
        marked.remove_cgroups(root)


def _said(hierarchies: Hierarchies, it: k8s.Pod, choice: CgroupChoice) -> list[Setting]:
    """What the kernel says of each value that was to be set."""
    path = Path(*pod_cgroup(it, choice.facts.cgroup_root))
    return [
        one._replace(value=(hierarchies.of[one.controller] / path / one.file).read_text().strip())
        for one in pod_settings(it, choice.facts)
        if one.controller in hierarchies.of
    ]


def test_the_kernel_takes_every_value_and_a_second_time_nothing_changes(
    chosen: tuple[CgroupChoice, Hierarchies],
) -> None:
    choice, hierarchies = chosen
    assert "" == choice.why_not

    trio.run(choice.cgroups.ensure, FULL)
    trio.run(choice.cgroups.ensure, FULL)
    trio.run(choice.cgroups.ensure, SOME)

    wanted = [one for one in pod_settings(FULL, choice.facts) if one.controller in hierarchies.of]
    assert wanted == _said(hierarchies, FULL, choice)
    assert frozenset({"full", "some"}) == choice.cgroups.leftovers()


def test_what_lives_in_a_pods_cgroup_is_killed_and_it_goes(chosen: tuple[CgroupChoice, Hierarchies]) -> None:
    choice, hierarchies = chosen
    trio.run(choice.cgroups.ensure, SOME)
    directory = hierarchies.of["cpu"] / Path(*pod_cgroup(SOME, choice.facts.cgroup_root)) / "box"
    directory.mkdir()
    process = subprocess.Popen(["sleep", "600"])
    try:
        (directory / "cgroup.procs").write_text(str(process.pid))
        try:
            trio.run(choice.cgroups.remove, "some")
        except CgroupFailed:  # it was still dying
            process.wait()
            trio.run(choice.cgroups.remove, "some")
        assert -9 == process.wait()
    finally:
        process.kill()
        process.wait()

    trio.run(choice.cgroups.remove, "some")
    assert frozenset() == choice.cgroups.leftovers()
