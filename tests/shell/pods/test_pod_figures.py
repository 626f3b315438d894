"""What running pods has measured, on a node in memory: each figure where something that it counts has happened."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec
import pytest
import trio

from shell.pods.shellkit import Bench, phase, until
from trikubelet.app.tally import tally
from trikubelet.images.figures import Ensured, size_word
from trikubelet.model import k8s
from trikubelet.server.node_figures import Work
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod

if TYPE_CHECKING:
    from trio.testing import MockClock

MIB = 1 << 20
DATA = k8s.Volume(name="v", empty_dir=k8s.EmptyDirVolumeSource())


async def test_a_pods_life_is_counted_from_its_worker_to_its_end(autojump_clock: MockClock) -> None:
    web = pod("web", container("main"), init=[container("first", ["exit", "0", "1"])], grace=1)
    web = msgspec.structs.replace(web, spec=msgspec.structs.replace(web.spec, volumes=(DATA,)))
    async with Bench().agent(web) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        assert Counter({"kubernetes.io/empty-dir": 1}) == node.volumes.figures().ready()
        assert {Work("sync", "desired", "true"): 1} == tally(node, in_cluster=True).working
        assert (1, 1) == (tally(node, in_cluster=True).mirrors, tally(node, in_cluster=True).active[True])
        node.slots["file"].put(Snapshot())
        await until(lambda: "uid-web" not in node.workers)
        figures = node.figures

    assert {"init_container": 1, "container": 1} == figures.started
    assert ("init_container", 0, "Completed") in node.statuses.ended
    assert (1, 1) == (figures.worker_starts.count, figures.containers.count)
    assert {"create", "sync", "kill"} <= figures.syncs.keys()
    assert 1 == figures.syncs["create"].count
    assert {"": 1} == {handler: spread.count for handler, spread in figures.sandboxes.items()}
    assert {"update", "destroy"} == figures.cgroups.keys()
    assert 1 == node.startups.seconds.count
    assert Counter() == node.volumes.figures().ready()
    assert {("kubernetes.io/empty-dir", "success"): 1} == {
        key: spread.count for key, spread in node.volumes.figures().durations.items()
    }


async def test_a_static_pod_that_has_ended_still_has_a_mirror_and_no_place(autojump_clock: MockClock) -> None:
    job = pod("job", container("main", ["exit", "0", "1"]), policy="Never")
    async with Bench().agent(job, pod("web")) as node:
        await until(lambda: phase(node, "uid-job") == "Succeeded")
        await until(lambda: tally(node, in_cluster=True).active[True] == 1)

        assert 2 == tally(node, in_cluster=True).mirrors
        assert 0 == tally(node, in_cluster=False).mirrors


async def test_a_container_that_does_not_start_is_counted_with_its_reason(autojump_clock: MockClock) -> None:
    lacking = msgspec.structs.replace(container("main"), image="nowhere:1")
    async with Bench().agent(pod("web", lacking)) as node:
        await until(lambda: bool(node.figures.start_failures))

    assert ("container", "ErrImagePull") in node.figures.start_failures
    assert {Ensured("false", "ifnotpresent", "true")} == set(node.puller.figures.ensured)
    assert {} == node.puller.figures.durations


async def test_edits_count_as_updates_and_undesired_pods_as_orphans(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(pod("old"), pod("web")) as node:
        await until(lambda: {phase(node, "uid-web"), phase(node, "uid-old")} == {"Running"})
        node.slots["file"].put(Snapshot((pod("old"), pod("web", priority=7))))
        await until(lambda: "update" in node.figures.syncs)
    async with bench.agent(pod("web", priority=7)) as node:
        await until(lambda: node.figures.orphans == 1)
        assert Work("terminating", "runtime_only", "unknown") in tally(node, in_cluster=False).working


@pytest.mark.parametrize(
    ("word", "size"),
    [
        ("N/A", 0),
        ("0-10MB", 1),
        ("0-10MB", 10 * MIB),
        ("10MB-100MB", 10 * MIB + 1),
        ("500MB-1GB", 600 * MIB),
        ("1GB-5GB", 1025 * MIB),
        ("GT100GB", 200 * 1024 * MIB),
    ],
)
def test_images_are_told_apart_by_upstreams_words_for_their_size(word: str, size: int) -> None:
    assert word == size_word(size)


async def test_a_hook_that_is_not_let_sleep_is_counted(autojump_clock: MockClock) -> None:
    sleeps = k8s.Lifecycle(pre_stop=k8s.LifecycleHandler(sleep=k8s.SleepAction(seconds=60)))
    slow = msgspec.structs.replace(container("main"), lifecycle=sleeps)
    async with Bench().agent(pod("web", slow, grace=5)) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        node.slots["file"].put(Snapshot())
        await trio.sleep(30)

    assert 1 == node.figures.sleeps_cut
