"""Slices of pods in a real systemd, of this test's own: made, changed, kept over a reload, and gone."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
import trio

from core.podkit import container, pod
from live.kit import places
from live.kit.systemd import Systemd
from trikubelet.core.containers import NodeFacts
from trikubelet.core.containers.cgroup_values import Setting, pod_settings
from trikubelet.core.containers.cgroups import parts, pod_cgroup
from trikubelet.host.cgroups import KernelPodCgroups
from trikubelet.host.slices import Slices
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

GIB = 1024**3
FULL = pod(
    container("a", resources=k8s.ResourceRequirements(limits={"cpu": "333m", "memory": "64Mi"})), meta={"uid": "a-b"}
)
SOME = pod(container("a", resources=k8s.ResourceRequirements(requests={"cpu": "250m"})), meta={"uid": "c-d"})
UNIT = "kubepods-poda_b.slice"


@pytest.fixture
def systemd(swept_machine: None) -> Iterator[Systemd]:
    try:
        made = Systemd()
    except places.NotInstalled as missing:
        pytest.fail(str(missing), pytrace=False)
    with made:
        yield made


def test_one_that_does_not_answer_is_ended_with_its_cgroups(
    swept_machine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Systemd()

    def no_answer(_: Systemd) -> bool:
        raise RuntimeError("no answer")

    monkeypatch.setattr(Systemd, "_answers", no_answer)
    with pytest.raises(RuntimeError, match="no answer"), made:
        pytest.fail("it was entered")
    assert [] == [tree for tree in made.hierarchies.trees if tree.exists()]


def test_a_pods_limits_are_its_slices_and_outlive_a_reload(systemd: Systemd) -> None:
    trees = systemd.hierarchies
    facts = NodeFacts(
        "n", cgroup_driver="systemd", cgroup_version=trees.version, pods_limit={"memory": GIB}, pod_pids_max=50
    )
    control, units = (systemd.run / "systemd" / name for name in ("system.control", "system"))
    cgroups = KernelPodCgroups(trees, facts, Slices(systemd.command("systemctl"), control, units))

    def told(*words: str) -> str:
        return subprocess.run(systemd.command("systemctl", *words), check=True, capture_output=True, text=True).stdout

    def path(it: k8s.Pod, tree: Path) -> Path:
        return tree.joinpath(*parts(pod_cgroup(it), "systemd"))

    def said(it: k8s.Pod) -> list[Setting]:
        """What the kernel says of each value that was to be set."""
        there = [one for one in pod_settings(it, facts) if one.controller in trees.of]
        return [
            one._replace(value=(path(it, trees.of[one.controller]) / one.file).read_text().strip()) for one in there
        ]

    trio.run(cgroups.ensure, FULL)
    trio.run(cgroups.ensure, SOME)
    wanted = [one for one in pod_settings(FULL, facts) if one.controller in trees.of]
    assert wanted == said(FULL)
    shown = dict(line.split("=", 1) for line in told("show", UNIT).splitlines())
    assert ("active", str(64 << 20), "50") == (shown["ActiveState"], shown["MemoryMax"], shown["TasksMax"])
    assert "340ms" == shown["CPUQuotaPerSecUSec"]  # whole percents of a second
    assert ("yes", "no") == (shown["IOAccounting"], shown["DefaultDependencies"])

    told("daemon-reload")
    assert wanted == said(FULL)
    trio.run(cgroups.ensure, FULL)
    assert wanted == said(FULL)
    share = Setting("cpu", "cpu.shares", "256") if trees.version == 1 else Setting("cpu", "cpu.weight", "10")
    assert share in said(SOME)
    assert share.value == (path(SOME, trees.of["cpu"]).parent / share.file).read_text().strip()

    assert frozenset({"a-b", "c-d"}) == cgroups.leftovers()
    trio.run(cgroups.remove, "a-b")
    assert frozenset({"c-d"}) == cgroups.leftovers()
    assert "ActiveState=inactive" in told("show", UNIT)
    assert not (control / f"{UNIT}.d").exists()
