"""Static pods that another kubelet began keep their UIDs and run on."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing
from msgspec.structs import replace as changed

from trikubelet.core.container_hash import container_hash
from trikubelet.model.pod_notes import Note
from trikubelet.model.runtime import ContainerState, ContainerStatus, PodObservation, SandboxState, SandboxStatus
from trikubelet.model.runtime_errors import RuntimeFailure
from trikubelet.pleg.cache import PodCache
from trikubelet.sources.adoption import FAILED_INSPECTIONS_MAX, Adoption
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_host import MemoryPodFiles

if TYPE_CHECKING:
    from trio.testing import MockClock

    from trikubelet.model.k8s import Pod

OWN, OTHER, ANOTHER = "0" * 32, "1" * 32, "2" * 32
WEB = pod("web", container(), uid=OWN)
CHANGED, BEGUN = 1, 2


def snapshot(*pods: Pod) -> Snapshot:
    """Return the file source's snapshot with these pods."""
    return Snapshot(pods, changed_ns={one.metadata.uid: CHANGED for one in pods})


def running(uid: str, of: Pod = WEB) -> PodObservation:
    """A pod that runs under that UID."""
    meta, one = of.metadata, of.spec.containers[0]
    box = SandboxStatus(f"box-{uid}", uid, meta.name, meta.namespace, 0, SandboxState.READY, BEGUN)
    made = ContainerStatus(uid, one.name, 0, ContainerState.RUNNING, 3, hash=container_hash(one), sandbox_id=box.id)
    return PodObservation(uid, meta.name, meta.namespace, sandboxes=(box,), containers=(made,), observed_at=1.0)


class Bench:
    """A root directory with the pods of those UIDs, and what the runtime has of them."""

    def __init__(self, *on_disk: str) -> None:
        self.files = MemoryPodFiles()
        self.files.pods |= set(on_disk)
        self.cache = PodCache()
        self.adoption = Adoption(self.files, self.cache)

    def listed(self, *observed: PodObservation) -> None:
        """The runtime was listed, and has these."""
        for one in observed:
            self.cache.put(one)
        self.cache.listed(1.0, ())

    async def uids(self, given: Snapshot) -> list[str]:
        """The UIDs under which the mux hears of the pods."""
        return [one.metadata.uid for one in (await self.adoption.settle(given)).pods]


async def test_running_pod_of_another_kubelet_keeps_its_uid(autojump_clock: MockClock) -> None:
    bench = Bench(OTHER)
    bench.listed(running(OTHER))

    assert [OTHER] == await bench.uids(snapshot(WEB))
    assert OTHER == bench.adoption.uid_of(OWN)
    assert OWN.encode() == bench.files.noted(OTHER, Note.ADOPTED)
    assert "<Adoption of 1 pods>" == repr(bench.adoption)


async def test_next_agent_keeps_the_uid_without_asking_the_runtime(autojump_clock: MockClock) -> None:
    bench = Bench(OTHER)
    bench.files.note(OTHER, Note.ADOPTED, OWN.encode())

    assert [OTHER] == await bench.uids(snapshot(WEB))


async def test_manifest_edited_while_no_agent_ran_is_another_pod(autojump_clock: MockClock) -> None:
    bench = Bench(OTHER)
    bench.files.note(OTHER, Note.ADOPTED, OWN.encode())
    bench.listed(running(OTHER))

    edited = changed(WEB, metadata=changed(WEB.metadata, uid=ANOTHER))
    assert [ANOTHER] == await bench.uids(snapshot(edited))


async def test_edit_under_the_eyes_of_the_agent_is_another_pod(autojump_clock: MockClock) -> None:
    bench = Bench(OTHER)
    bench.listed(running(OTHER))
    assert [OTHER] == await bench.uids(snapshot(WEB))

    edited = changed(WEB, metadata=changed(WEB.metadata, uid=ANOTHER))
    assert [ANOTHER] == await bench.uids(snapshot(edited))
    assert [OTHER] == await bench.uids(snapshot(WEB))


async def test_pod_that_an_earlier_agent_of_ours_began_is_not_adopted(autojump_clock: MockClock) -> None:
    bench = Bench(OTHER)
    bench.files.note(OTHER, Note.RESOURCES, b"{}")
    bench.listed(running(OTHER))

    assert [OWN] == await bench.uids(snapshot(WEB))


async def test_pod_begun_anew_by_the_other_kubelet_counts_and_not_the_one_adopted_before(
    autojump_clock: MockClock,
) -> None:
    bench = Bench(OTHER, ANOTHER)
    bench.files.note(OTHER, Note.ADOPTED, OWN.encode())
    bench.listed(running(ANOTHER))

    assert [ANOTHER] == await bench.uids(snapshot(WEB))


async def test_pods_wait_for_the_runtime_only_where_another_kubelet_had_some(autojump_clock: MockClock) -> None:
    assert [OWN] == await Bench(OWN, "0b1f9f0e-8a5d-4c39-9a35-3c3f2b1a0d4c").uids(snapshot(WEB))

    bench, found = Bench(OTHER), list[str]()
    async with trio.open_nursery() as nursery:

        async def settle() -> None:
            found.extend(await bench.uids(snapshot(WEB)))

        nursery.start_soon(settle)
        await trio.sleep(3600)
        assert [] == found
        bench.listed(running(OTHER))
    assert [OTHER] == found


@pytest.mark.parametrize("name", ["other", "web"])
async def test_pod_of_another_name_or_of_a_newer_manifest_is_not_adopted(
    autojump_clock: MockClock, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(OTHER)
    bench.listed(running(OTHER, pod(name, uid=OTHER)))

    newer = replace(snapshot(WEB), changed_ns={OWN: BEGUN if name == "web" else CHANGED})
    assert [OWN] == await bench.uids(newer)
    logged = "its manifest was changed after its start" in caplog.text
    assert logged is (name == "web")


async def test_pod_that_the_runtime_cannot_tell_of_is_not_adopted(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(OTHER)
    async with trio.open_nursery() as nursery:

        async def fail() -> None:
            for _ in range(FAILED_INSPECTIONS_MAX):
                await trio.sleep(1)
                bench.cache.listed(trio.current_time(), [OTHER])
                bench.cache.put_error(OTHER, trio.current_time(), RuntimeFailure("no answer", "INTERNAL"))

        nursery.start_soon(fail)
        assert [OWN] == await bench.uids(snapshot(WEB))
    assert "the runtime cannot report its state: no answer" in caplog.text


async def test_disk_that_does_not_answer_is_waited_for(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(OTHER)
    bench.listed(running(OTHER))
    look = bench.files.pods_on_disk
    tries = 0

    async def hangs_at_first() -> frozenset[str]:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise OSError(errno.ETIMEDOUT, "it hangs")
        return await look()

    monkeypatch.setattr(bench.files, "pods_on_disk", hangs_at_first)
    assert [OTHER] == await bench.uids(snapshot(WEB))
    assert 1 == caplog.text.count("Cannot read which static pods another kubelet began")


async def test_full_disk_does_not_keep_a_pod_from_being_adopted(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(OTHER)
    bench.listed(running(OTHER))

    def full(uid: str, note: Note, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(bench.files, "note", full)
    assert [OTHER] == await bench.uids(snapshot(WEB))


async def test_snapshots_of_other_sources_pass_at_once(autojump_clock: MockClock) -> None:
    given = Snapshot((pod("api", source="api", uid=OWN),))
    assert given is await Bench(OTHER).adoption.settle(given)
