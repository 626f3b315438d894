"""Pods on the runtime that the agent's root directory does not know: they are another node agent's."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest
import trio

from shell.pods.shellkit import Bench, phase, until
from trikubelet.core.names import log_directory_name
from trikubelet.core.unknown_pods import UNKNOWN_PODS, UnknownOnRuntime, unknown_pods_end, unknown_pods_message
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_host import MemoryPodFiles

if TYPE_CHECKING:
    from trio.testing import MockClock

    from trikubelet.app.node import Node

ONCE = container("once", ["exit", "0", "1"])


def careful_bench() -> Bench:
    """A bench whose agents end only the orphans that their root directory knows."""
    bench = Bench()
    bench.ends_unknown_pods = False
    return bench


async def bench_with_foreign_pods(*names: str) -> Bench:
    """A world in which an agent with another root directory began these pods, and has ended."""
    bench = careful_bench()
    async with bench.agent(*(pod(name) for name in names)):
        await until(lambda: len(bench.running()) == len(names))
    bench.files = MemoryPodFiles()
    return bench


def reports(node: Node) -> list[str]:
    return [event.message for event in node.events.all() if event.reason == UNKNOWN_PODS]


async def test_running_pod_of_another_root_directory_is_left_alone_and_reported_once(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = await bench_with_foreign_pods("theirs")
    async with bench.agent(pod("mine", container("ours"))) as node:
        await until(lambda: bench.running() == ["main", "ours"])
        await trio.sleep(600)

        assert ["main", "ours"] == bench.running()
        assert [unknown_pods_message(UnknownOnRuntime([("default", "theirs")]))] == reports(node)
        assert 1 == sum("default/theirs" in one.getMessage() for one in caplog.records)


async def test_unknown_pods_end_on_request(autojump_clock: MockClock) -> None:
    bench = await bench_with_foreign_pods("theirs")
    bench.ends_unknown_pods = True
    async with bench.agent():
        await until(lambda: not bench.world.sandboxes)


async def test_orphan_that_the_root_directory_knows_ends(autojump_clock: MockClock) -> None:
    bench = careful_bench()
    async with bench.agent(pod("web")):
        await until(lambda: bench.running() == ["main"])
    async with bench.agent():
        await until(lambda: not bench.world.sandboxes and not bench.pods_on_disk())


async def test_wanted_pod_is_adopted_with_an_empty_root_directory(autojump_clock: MockClock) -> None:
    bench = await bench_with_foreign_pods("web")
    before = set(bench.world.sandboxes)
    async with bench.agent(pod("web")) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        assert ["main"] == bench.running()
        assert before == set(bench.world.sandboxes)
        assert [] == reports(node)


async def test_static_pod_waits_for_an_unknown_pod_of_its_name(autojump_clock: MockClock) -> None:
    bench = await bench_with_foreign_pods("web")
    wanted = pod("web", container("ours"), uid="hash2")
    async with bench.agent(wanted) as node:
        await trio.sleep(600)
        assert ["main"] == bench.running()
        why = node.workers.earlier.waits_because(wanted)
        assert "pod default/web with the UID uid-web runs under its name" in why
        assert "--end-unknown-pods or trikubelet reset" in why
    bench.ends_unknown_pods = True
    async with bench.agent(wanted):
        await until(lambda: bench.running() == ["ours"])


async def test_static_pod_that_runs_does_not_wait_for_an_unknown_pod_of_its_name(autojump_clock: MockClock) -> None:
    bench = await bench_with_foreign_pods("web")
    wanted = pod("web", container("ours"), uid="hash2")
    bench.ends_unknown_pods = False
    other = Bench()
    other.world = bench.world
    async with other.agent(wanted):
        await until(lambda: "ours" in other.running())
    bench.files = MemoryPodFiles()
    async with bench.agent(wanted) as node:
        await until(lambda: phase(node, "hash2") == "Running")
        assert "" == node.workers.earlier.waits_because(wanted)


async def bench_with_a_kubelets_disk() -> Bench:
    """A world in which a kubelet with this root directory began the pod web, and has ended."""
    bench = careful_bench()
    async with bench.agent(pod("web")):
        await until(lambda: bench.running() == ["main"])
    assert isinstance(bench.files, MemoryPodFiles)
    bench.files.unknown = frozenset({"uid-web"})
    return bench


async def test_pod_of_a_stopped_kubelet_is_left_alone_at_every_start(autojump_clock: MockClock) -> None:
    bench = await bench_with_a_kubelets_disk()
    for _ in range(2):
        async with bench.agent() as node:
            await trio.sleep(600)
            assert (["main"], {"uid-web"}) == (bench.running(), bench.pods_on_disk())
            assert [unknown_pods_message(UnknownOnRuntime([("default", "web")]))] == reports(node)


async def test_directory_of_an_ended_pod_of_a_stopped_kubelet_stays(autojump_clock: MockClock) -> None:
    bench = await bench_with_a_kubelets_disk()
    bench.world.sandboxes.clear()
    bench.world.containers.clear()
    async with bench.agent():
        await trio.sleep(600)
        assert {"uid-web"} == bench.pods_on_disk()


async def test_pod_of_a_stopped_kubelet_is_this_nodes_once_it_was_wanted(autojump_clock: MockClock) -> None:
    bench = await bench_with_a_kubelets_disk()
    async with bench.agent(pod("web")) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        await until(lambda: not bench.files.unknown_pods())
    async with bench.agent():
        await until(lambda: not bench.world.sandboxes and not bench.pods_on_disk())


async def test_pods_of_a_stopped_kubelet_end_on_request(autojump_clock: MockClock) -> None:
    bench = await bench_with_a_kubelets_disk()
    bench.ends_unknown_pods = True
    async with bench.agent():
        await until(lambda: not bench.world.sandboxes and not bench.pods_on_disk())
        assert not bench.files.unknown_pods()


async def test_note_of_removed_pods_is_read_also_where_all_pods_are_known(autojump_clock: MockClock) -> None:
    bench = Bench()
    assert isinstance(bench.files, MemoryPodFiles)
    bench.files.removed = frozenset({"uid-gone"})
    async with bench.agent():
        await until(lambda: not bench.files.removed_pods(), 300)


async def test_ended_containers_of_an_unknown_pod_stay(autojump_clock: MockClock) -> None:
    bench = careful_bench()
    async with bench.agent(pod("job", ONCE, policy="Never")) as node:
        await until(lambda: phase(node, "uid-job") == "Succeeded")
    bench.files = MemoryPodFiles()
    before = (dict(bench.world.containers), set(bench.world.sandboxes))
    async with bench.agent() as node:
        await trio.sleep(600)
        await node.garbage.collect_unused()
        assert before == (dict(bench.world.containers), set(bench.world.sandboxes))


async def test_ended_pod_without_a_directory_is_still_this_nodes(autojump_clock: MockClock) -> None:
    bench = careful_bench()
    async with bench.agent(pod("job", ONCE, policy="Never")) as node:
        await until(lambda: phase(node, "uid-job") == "Succeeded")
    assert isinstance(bench.files, MemoryPodFiles)
    bench.files.pods.clear()  # the agent was killed between this and the removal of what the runtime and the logs have
    bench.files.removed = frozenset({"uid-job"})
    assert log_directory_name("default", "job", "uid-job") in bench.log_directories()
    async with bench.agent():
        await until(lambda: not bench.world.sandboxes and not bench.log_directories(), 300)
        await until(lambda: not bench.files.removed_pods(), 300)


async def test_removal_of_a_directory_is_noted_until_nothing_is_left(autojump_clock: MockClock) -> None:
    bench = careful_bench()
    async with bench.agent(pod("web")):
        await until(lambda: bench.running() == ["main"])
    noted: list[frozenset[str]] = []
    assert isinstance(bench.files, MemoryPodFiles)
    note = bench.files.note_removed
    bench.files.note_removed = lambda uids: (noted.append(frozenset(uids)), note(uids))[1]  # type: ignore[method-assign]
    async with bench.agent():
        await until(lambda: bool(noted) and not bench.files.removed_pods(), 300)
    assert frozenset({"uid-web"}) == noted[0]


async def test_nothing_is_an_orphan_while_the_root_directory_cannot_be_read(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = careful_bench()
    async with bench.agent(pod("web")):
        await until(lambda: bench.running() == ["main"])

    async def fail() -> frozenset[str]:
        await trio.lowlevel.checkpoint()
        raise OSError(errno.ETIMEDOUT, "Connection timed out")

    with monkeypatch.context() as patch:
        patch.setattr(bench.files, "pods_on_disk", fail)
        async with bench.agent():
            await trio.sleep(300)
            assert ["main"] == bench.running()
            patch.undo()
            await until(lambda: not bench.world.sandboxes)


def test_message_names_ten_pods_and_counts_the_others() -> None:
    message = unknown_pods_message(UnknownOnRuntime([("default", f"p{n:02}") for n in range(12)], ended=1))

    assert message.startswith("12 unknown pods run on the container runtime: default/p00, ")
    assert "default/p09 and 2 more; 1 more has ended. " in message
    assert message.endswith("(end them with --end-unknown-pods or trikubelet reset)")


def test_message_about_ended_pods_alone_counts_them() -> None:
    message = unknown_pods_message(UnknownOnRuntime(ended=2))

    assert message.startswith("2 unknown pods have ended on the container runtime. ")
    assert message.endswith("(remove them with --end-unknown-pods or trikubelet reset)")


@pytest.mark.parametrize(
    ("unknown", "message", "announcement"),
    [
        (
            UnknownOnRuntime([("default", "web")]),
            "1 unknown pod runs on the container runtime: default/web. It belongs to another node agent or to an "
            "earlier root directory and is left alone (end it with --x)",
            ", and ends, too (--x)",
        ),
        (
            UnknownOnRuntime(ended=1),
            "1 unknown pod has ended on the container runtime. It belongs to another node agent or to an earlier root "
            "directory and is left alone (remove it with --x)",
            ", and is removed, too (--x)",
        ),
    ],
)
def test_messages_about_one_pod_are_in_the_singular(unknown: UnknownOnRuntime, message: str, announcement: str) -> None:
    assert message == unknown_pods_message(unknown, "--x")
    assert unknown_pods_end(unknown, "--x").endswith(announcement)
