"""What pods are allocated goes over to upstream's kubelet and comes back from it."""

from __future__ import annotations

import errno
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec
import pytest
import trio

from trikubelet.core.resize.allocation import allocation_of, written
from trikubelet.core.resize.checkpoint import PodResources, read
from trikubelet.core.resize.checkpoint import written as file_of
from trikubelet.model import k8s
from trikubelet.model.pod_notes import NodeNote, Note
from trikubelet.pods.allocation_checkpoints import WRITE_SECONDS, AllocationCheckpoints
from trikubelet.pods.allocations import Allocations
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_host import MemoryPodFiles

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trio.testing import MockClock

UID = "uid-web"


def cpu(amount: str) -> k8s.ResourceRequirements:
    """A request of so much processor time."""
    return k8s.ResourceRequirements(requests={"cpu": amount})


def web(amount: str) -> k8s.Pod:
    """A pod that asks for so much."""
    return pod("web", container(resources=cpu(amount)))


def by_upstream(**pods: str) -> bytes:
    """A file that upstream's kubelet wrote: what each pod's container has."""
    file = msgspec.json.decode(file_of({uid: PodResources({"main": cpu(one)}) for uid, one in pods.items()}))
    return msgspec.json.encode({"data": file["data"], "checksum": file["checksum"]})


class Bench:
    """A root directory, and the agent's allocations."""

    def __init__(self) -> None:
        self.files = MemoryPodFiles()
        self.files.pods.add(UID)
        self.allocations = Allocations(self.files)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """An agent that keeps the files."""
        async with trio.open_nursery() as nursery:
            await nursery.start(AllocationCheckpoints(self.files, self.allocations).run)
            yield
            nursery.cancel_scope.cancel()

    def kept(self, note: NodeNote) -> dict[str, object]:
        """Return the file's entry of each pod's container."""
        found = read(self.files.node_note(note)).pods
        return {uid: (one.container_resources or {}).get("main") for uid, one in found.items()}

    def given(self, asked: str) -> str:
        """Return the allocation of a pod with that request."""
        (one,) = self.allocations.as_allocated(web(asked)).spec.containers
        return str(one.resources.requests["cpu"]) if one.resources else ""


async def test_what_pods_have_is_written_within_a_second_and_at_the_end(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.running():
        bench.allocations.admit(web("1"))
        await trio.sleep(2 * WRITE_SECONDS)
        assert {UID: cpu("1")} == bench.kept(NodeNote.ALLOCATED)
        assert {UID: None} == bench.kept(NodeNote.ACTUATED)
        bench.allocations.creating(web("1"), web("1").spec.containers[0], 0)
        await trio.sleep(2 * WRITE_SECONDS)
        assert {UID: cpu("1000m")} == bench.kept(NodeNote.ACTUATED)
        bench.allocations.forget(UID)
    assert {} == bench.kept(NodeNote.ALLOCATED)


async def test_node_without_pods_has_no_files(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.running():
        await trio.sleep(10)
    assert b"" == bench.files.node_note(NodeNote.ALLOCATED)


async def test_pod_of_upstream_keeps_what_it_was_allocated(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.files.content[f"/{NodeNote.ALLOCATED.value}"] = by_upstream(**{UID: "1", "gone": "1"})
    bench.files.content[f"/{NodeNote.ACTUATED.value}"] = by_upstream(**{UID: "2"})
    async with bench.running():
        assert "1" == bench.given("3")
        bench.allocations.admit(web("3"))
        assert "1" == bench.given("3")
    assert {UID: cpu("1")} == bench.kept(NodeNote.ALLOCATED)
    assert {UID: cpu("2")} == bench.kept(NodeNote.ACTUATED)


@pytest.mark.parametrize(("is_upstreams", "expected"), [(True, "2"), (False, "1")])
async def test_file_counts_before_a_note_where_upstream_wrote_it_last(
    autojump_clock: MockClock, is_upstreams: bool, expected: str
) -> None:
    bench = Bench()
    bench.files.note(UID, Note.RESOURCES, written(allocation_of(web("1"))))
    own = file_of({UID: PodResources({"main": cpu("2")})})
    bench.files.content[f"/{NodeNote.ALLOCATED.value}"] = by_upstream(**{UID: "2"}) if is_upstreams else own
    async with bench.running():
        assert expected == bench.given("3")


@pytest.mark.parametrize("content", [b"no JSON", b'{"data": "{}", "checksum": 1}'])
async def test_damaged_file_is_reported_and_the_spec_counts(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    bench = Bench()
    bench.files.content[f"/{NodeNote.ALLOCATED.value}"] = content
    async with bench.running():
        assert "3" == bench.given("3")
    assert "Cannot read allocated_pods_state" in caplog.text


async def test_disk_that_does_not_take_the_files_is_tried_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    keep = bench.files.keep_node_note

    async def full(note: NodeNote, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(bench.files, "keep_node_note", full)
    async with bench.running():
        bench.allocations.admit(web("1"))
        await trio.sleep(10)
        monkeypatch.setattr(bench.files, "keep_node_note", keep)
        await trio.sleep(10)
        assert {UID: cpu("1")} == bench.kept(NodeNote.ALLOCATED)
    assert 1 == caplog.text.count("Cannot write the allocations of pods")


async def test_disk_that_does_not_answer_does_not_stop_the_agent(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()

    async def hangs() -> frozenset[str]:
        raise OSError(errno.ETIMEDOUT, "it hangs")

    monkeypatch.setattr(bench.files, "pods_on_disk", hangs)
    async with bench.running():
        assert "3" == bench.given("3")
