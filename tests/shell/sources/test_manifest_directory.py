"""The file source on a directory in memory and on virtual time: no fault of a file costs a pod that runs."""

from __future__ import annotations

import errno
import itertools
import logging
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
from trio.testing import MockClock

from shell.sources.sourcekit import Inline, MemoryDirectory, Snapshots, manifest, settings
from trikubelet.core.file_source import Claim, Claims, FileState, claim
from trikubelet.model.bounds import Bounds
from trikubelet.model.manifest_places import EntryKind
from trikubelet.sources.file import LOAD_AGAIN_SECONDS, FileSource
from trikubelet.sources.rewritten import Rewritten
from trikubelet.testing.memory_host import VirtualClock
from trikubelet.testing.world import wall_ns

BAD = "kind: Pod\nspec: ["


class BegunPods:
    """Which pods have a directory, as a test says; with nobody else on the disk."""

    def __init__(self) -> None:
        self.uids: frozenset[str] = frozenset()
        self.error: OSError | None = None

    async def pods_on_disk(self) -> frozenset[str]:
        await trio.lowlevel.checkpoint()
        if self.error is not None:
            raise self.error
        return self.uids


class Bench:
    """A directory, a source that follows it, and what it published."""

    def __init__(self, path: str = "/manifests", file_check_seconds: float = 20.0) -> None:
        self.directory = MemoryDirectory(path)
        self.begun = BegunPods()
        self.snapshots = Snapshots()
        self.threads = Inline()
        self.source = FileSource(
            path=path,
            node_name="node",
            files=self.directory,
            begun_pods=self.begun,
            watcher=self.directory,
            threads=self.threads,
            clock=VirtualClock(),
            slot=self.snapshots.slot,
            bounds=Bounds(file_check_seconds=file_check_seconds),
        )

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        async with trio.open_nursery() as nursery:
            await nursery.start(self.source.run)
            await trio.sleep(0.2)  # past the second look, when the watch stands
            yield
            nursery.cancel_scope.cancel()

    def faults(self) -> list[str]:
        return [str(fault).partition(":")[0].removeprefix("/manifests/") for fault in self.source.faults()]


async def test_every_manifest_of_the_directory_is_in_the_first_snapshot(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.directory.write("a.yaml", manifest("one") + "---\n" + manifest("two"))
    bench.directory.write("b.json", manifest("three"))

    async with bench.running():
        assert {"one": "app:1", "two": "app:1", "three": "app:1"} == await bench.snapshots.next()
    assert () == bench.source.faults()


async def test_snapshot_has_when_the_file_of_each_pod_was_changed(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.directory.write("a.yaml", manifest("one"), age_seconds=100)
    bench.directory.write("b.yaml", manifest("two"), age_seconds=200)
    before = wall_ns()

    async with bench.running():
        snapshot = await bench.snapshots.slot.take()
    ages = {pod.metadata.name: round((before - snapshot.changed_ns[pod.metadata.uid]) / 1e9) for pod in snapshot.pods}
    assert {"one-node": 100, "two-node": 200} == ages


async def test_object_follows_its_file_and_survives_an_invalid_edit(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    bench.directory.write("a.yaml", manifest("one") + "---\n" + settings("1"))
    async with bench.running():
        assert {"one": "app:1"} == await bench.snapshots.next()
        assert ["1"] == bench.snapshots.objects

        bench.directory.write("a.yaml", manifest("one") + "---\n" + settings("2"))
        assert {"one": "app:1"} == await bench.snapshots.next()
        assert ["2"] == bench.snapshots.objects
        bench.directory.write("a.yaml", manifest("one") + "---\n" + settings("3").replace("\ndata:", "\ndat:"))
        await bench.snapshots.next()
        assert (["2"], ["a.yaml"]) == (bench.snapshots.objects, bench.faults())
        bench.directory.write("a.yaml", manifest("one"))
        await bench.snapshots.next()
        assert ([], []) == (bench.snapshots.objects, bench.faults())


async def test_a_file_that_just_lost_its_object_may_be_half_written(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.directory.write("a.yaml", settings("1") + "---\n" + manifest("one"))
    async with bench.running():
        await bench.snapshots.next()
        bench.directory.write("a.yaml", manifest("one"), age_seconds=0)
        assert await bench.snapshots.none_within(0.5)
        await bench.snapshots.next()
        assert [] == bench.snapshots.objects


async def test_an_empty_directory_speaks_too(autojump_clock: MockClock) -> None:
    bench = Bench()

    async with bench.running():
        assert {} == await bench.snapshots.next()


async def test_a_change_is_seen_at_once_when_it_is_noticed(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.running():
        await bench.snapshots.next()
        bench.directory.write("a.yaml", manifest("one"))
        with trio.fail_after(1):
            assert {"one": "app:1"} == await bench.snapshots.next()
        bench.directory.remove("a.yaml")
        with trio.fail_after(1):
            assert {} == await bench.snapshots.next()


async def test_unnoticed_change_is_found_by_the_next_regular_look(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.running():
        await bench.snapshots.next()
        bench.directory.write("a.yaml", manifest("one"), notify=False)
        assert await bench.snapshots.none_within(19)
        with trio.fail_after(2):
            assert {"one": "app:1"} == await bench.snapshots.next()


async def test_an_unchanged_file_is_not_read_again_and_publishes_nothing(autojump_clock: MockClock) -> None:
    bench = Bench()
    path = bench.directory.write("a.yaml", manifest("one"))
    async with bench.running():
        await bench.snapshots.next()
        assert await bench.snapshots.none_within(100)
    assert [path] == bench.directory.reads


async def test_a_file_that_turns_bad_keeps_its_last_good_pods(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.directory.write("a.yaml", manifest("one"))
    bench.directory.write("b.yaml", manifest("two"))
    async with bench.running():
        await bench.snapshots.next()
        path = bench.directory.write("a.yaml", BAD)
        assert await bench.snapshots.none_within(50)
        assert ["a.yaml"] == bench.faults()
        assert ["one-node"] == [pod.metadata.name for pod in bench.source.files()[path].pods]

        bench.directory.write("a.yaml", manifest("one", "app:2"))
        assert {"one": "app:2", "two": "app:1"} == await bench.snapshots.next()
        assert [] == bench.faults()


async def test_a_bad_file_that_is_removed_takes_its_pods_with_it(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.directory.write("a.yaml", manifest("one"))
    async with bench.running():
        await bench.snapshots.next()
        bench.directory.write("a.yaml", BAD)
        assert await bench.snapshots.none_within(5)
        bench.directory.remove("a.yaml")
        assert {} == await bench.snapshots.next()
        assert [] == bench.faults()


@pytest.mark.parametrize("half", ["", BAD, manifest("two")])
async def test_a_file_that_is_being_written_is_read_again_before_it_is_believed(
    autojump_clock: MockClock, half: str
) -> None:
    bench = Bench()
    bench.directory.write("a.yaml", manifest("one"))
    async with bench.running():
        await bench.snapshots.next()
        bench.directory.write("a.yaml", half, age_seconds=0.1)
        assert await bench.snapshots.none_within(0.5)
        assert [] == bench.faults()
        bench.directory.write("a.yaml", manifest("one", "app:2"), age_seconds=0)
        assert {"one": "app:2"} == await bench.snapshots.next()


async def test_what_has_settled_is_believed_soon(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.directory.write("a.yaml", manifest("one"))
    async with bench.running():
        await bench.snapshots.next()
        bench.directory.write("a.yaml", "# taken out for now\n", age_seconds=0)
        with trio.fail_after(2):
            assert {} == await bench.snapshots.next()
        bench.directory.write("b.yaml", BAD, age_seconds=0)
        await trio.sleep(2)
        assert ["b.yaml"] == bench.faults()


async def test_a_file_from_the_future_is_believed_at_once(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.directory.write("a.yaml", BAD, age_seconds=-1000)
    async with bench.running():
        assert {} == await bench.snapshots.next()
        assert ["a.yaml"] == bench.faults()


async def test_the_first_word_waits_for_a_file_that_is_being_written(autojump_clock: MockClock) -> None:
    """Else its running pod would be nobody's until the next look, and be stopped."""
    bench = Bench()
    bench.directory.write("a.yaml", BAD, age_seconds=0)
    bench.directory.write("b.yaml", manifest("two"))
    async with bench.running():
        assert await bench.snapshots.none_within(0.5)
        bench.directory.write("a.yaml", manifest("one"), age_seconds=0)
        assert {"one": "app:1", "two": "app:1"} == await bench.snapshots.next()


async def keeps_writing(bench: Bench, name: str, text: str, *, numbered: bool = False) -> None:
    for n in itertools.count():
        bench.directory.write(name.format(n), text, age_seconds=0)
        await trio.sleep(0.3)
        if numbered:
            bench.directory.remove(name.format(n), notify=False)


@pytest.mark.parametrize("numbered", [False, True])
async def test_the_first_word_does_not_wait_for_what_never_settles(autojump_clock: MockClock, numbered: bool) -> None:
    """A log in the directory, or one temporary file after another, kept every static pod from starting."""
    bench = Bench()
    bench.directory.write("good.yaml", manifest("one"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            partial(keeps_writing, bench, "some{}.log" if numbered else "some.log", BAD, numbered=numbered)
        )
        async with bench.running():
            with trio.fail_after(7):
                assert {"one": "app:1"} == await bench.snapshots.next()
            # What it may once have brought nobody can know: orphans are left alone.
            assert ["/manifests/some"] == [path.rstrip("0123456789.log") for path in bench.snapshots.invalid_manifests]
        nursery.cancel_scope.cancel()


async def test_a_file_that_never_settles_is_a_fault_that_is_said_once_and_ends_when_it_is_good(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    bench.directory.write("good.yaml", manifest("one"))
    async with bench.running(), trio.open_nursery() as nursery:
        await bench.snapshots.next()
        nursery.start_soon(keeps_writing, bench, "good.yaml", BAD)
        assert await bench.snapshots.none_within(60)  # the pod that it had goes on
        nursery.cancel_scope.cancel()
        (fault,) = bench.source.faults()
        assert str(fault).startswith("/manifests/good.yaml: is written to all the time: for 5 s")
        assert [f"Manifest fault: {fault}"] == [r.message for r in caplog.records if r.levelno == logging.WARNING]

        bench.directory.write("good.yaml", manifest("one", "app:2"), age_seconds=0)
        assert {"one": "app:2"} == await bench.snapshots.next()
        assert () == bench.source.faults()


async def test_a_file_that_never_settled_from_the_beginning_is_no_doubt_once_it_is_good(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    bench.directory.write("a.yaml", BAD, age_seconds=0)
    async with bench.running():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keeps_writing, bench, "a.yaml", BAD)
            assert {} == await bench.snapshots.next()
            assert (("/manifests/a.yaml",), ["a.yaml"]) == (bench.snapshots.invalid_manifests, bench.faults())
            nursery.cancel_scope.cancel()

        bench.directory.write("a.yaml", manifest("one"), age_seconds=0)
        assert {"one": "app:1"} == await bench.snapshots.next()
        assert ((), []) == (bench.snapshots.invalid_manifests, bench.faults())


async def test_a_file_that_goes_before_it_has_settled_is_not_waited_for(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.directory.write("good.yaml", manifest("one"))
    bench.directory.write("a.yaml", BAD, age_seconds=0)
    async with bench.running():
        bench.directory.remove("a.yaml")
        with trio.fail_after(1):
            assert {"one": "app:1"} == await bench.snapshots.next()
        await trio.sleep(60)  # which never ends where a time that is over is waited for


@pytest.mark.parametrize("error", [None, OSError(errno.EIO, "Input/output error")])
async def test_a_directory_that_goes_with_an_unsettled_file_is_looked_at_as_often_as_any(
    autojump_clock: MockClock, error: OSError | None
) -> None:
    bench = Bench()
    bench.directory.write("good.yaml", manifest("one"))
    async with bench.running():
        await bench.snapshots.next()
        bench.directory.write("a.yaml", BAD, age_seconds=0)
        await trio.sleep(0.5)
        bench.directory.exists, bench.directory.error = error is not None, error
        await trio.sleep(60)  # as above
        bench.directory.exists, bench.directory.error = True, None
        await trio.sleep(60)
        assert ["a.yaml"] == bench.faults()


async def test_of_two_files_with_one_pod_the_first_keeps_it_whatever_they_are_called(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.directory.write("b.yaml", manifest("one", "first"))
    async with bench.running():
        await bench.snapshots.next()
        bench.directory.write("a.yaml", "# a copy\n" + manifest("one", "second"))
        assert await bench.snapshots.none_within(50)
        taken = 'Duplicate value: "one": /manifests/b.yaml has a pod of that name, which counts'
        remedy = "(rename one of the two or remove one of the files)"
        assert [f"/manifests/a.yaml:5: metadata.name: {taken} {remedy}"] == [
            str(fault) for fault in bench.source.faults()
        ]

        bench.directory.remove("b.yaml")
        assert {"one": "second"} == await bench.snapshots.next()
        assert [] == bench.faults()


async def test_a_pod_that_moves_to_another_file_with_its_uid_is_changed_as_far_as_it_may_be(
    autojump_clock: MockClock,
) -> None:
    def saying(host: str, image: str) -> str:
        return (
            manifest("one", image).replace("name: one", "name: one, uid: u}").replace("metadata:\n  ", "metadata: {")
            + f"  hostname: {host}\n"
        )

    bench = Bench()
    bench.directory.write("old.yaml", saying("a", "app:1"))
    async with bench.running():
        await bench.snapshots.next()
        bench.directory.remove("old.yaml", notify=False)
        bench.directory.write("new.yaml", saying("a", "app:2"))
        assert {"one": "app:2"} == await bench.snapshots.next()
        assert [] == bench.faults()

        bench.directory.remove("new.yaml", notify=False)
        bench.directory.write("third.yaml", saying("b", "app:3"))
        assert await bench.snapshots.none_within(50)
        forbidden = 'Forbidden: the pod "u" runs, and fields that must not change did: spec.hostname'
        assert [forbidden] == [fault.problem for fault in bench.source.faults()]
        bench.directory.write("third.yaml", saying("a", "app:3"))
        assert {"one": "app:3"} == await bench.snapshots.next()
        assert [] == bench.faults()


async def test_after_a_start_a_copy_that_was_refused_does_not_take_the_name_of_the_pod_that_runs(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    bench.directory.write("five.yaml", manifest("five", "first"))
    async with bench.running():
        await bench.snapshots.next()
    again = Bench()
    again.begun.uids = bench.snapshots.uids
    again.directory.write("five.yaml", manifest("five", "first"))
    again.directory.write("a-five.yaml", manifest("five", "second"))
    async with again.running():
        assert {"five": "first"} == await again.snapshots.next()
        assert ["a-five.yaml"] == again.faults()


async def test_nor_when_the_file_of_the_pod_that_runs_is_half_written_at_the_start(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.directory.write("five.yaml", manifest("five", "first"))
    async with bench.running():
        await bench.snapshots.next()
    again = Bench()
    again.begun.uids = bench.snapshots.uids
    again.directory.write("a-five.yaml", manifest("five", "second"))
    again.directory.write("five.yaml", BAD, age_seconds=0)
    async with again.running():
        again.directory.write("five.yaml", manifest("five", "first"))
        assert {"five": "first"} == await again.snapshots.next()


async def test_no_file_gets_a_name_while_the_disk_does_not_answer(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    bench.directory.write("five.yaml", manifest("five", "first"))
    async with bench.running():
        await bench.snapshots.next()
    again = Bench()
    again.begun.error = OSError(errno.EIO, "Input/output error")
    again.directory.write("five.yaml", manifest("five", "first"))
    again.directory.write("a-five.yaml", manifest("five", "second"))
    async with again.running():
        assert await again.snapshots.none_within(300)
        again.begun.error, again.begun.uids = None, bench.snapshots.uids
        assert {"five": "first"} == await again.snapshots.next()
        assert ["a-five.yaml"] == again.faults()
    assert ["Cannot find the pods that were begun before this start: Input/output error"] == [
        record.message for record in caplog.records if record.message.startswith("Cannot find")
    ]


async def test_begun_pods_are_not_read_without_duplicates(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.begun.error = TimeoutError(errno.ETIMEDOUT, "the disk did not answer within 10 s")
    for name in ("one", "two"):
        bench.directory.write(f"{name}.yaml", manifest(name))
    async with bench.running():
        assert {"one": "app:1", "two": "app:1"} == await bench.snapshots.next()


async def test_what_was_wrong_with_a_directory_is_not_wrong_with_one_that_is_missing(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    bench.directory.write("a.yaml", manifest("one"))
    async with bench.running():
        await bench.snapshots.next()
        bench.directory.error = PermissionError(errno.EACCES, "Permission denied")
        await trio.sleep(25)
        assert [""] == [fault.removeprefix("/manifests") for fault in bench.faults()]
        bench.directory.error, bench.directory.exists = None, False
        await trio.sleep(20)
        assert [] == bench.faults()
        await trio.sleep(300)
        assert [] == bench.faults()


async def test_what_is_no_manifest_is_ignored_and_said_once(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    bench = Bench()
    for name in (".hidden", "a.yaml~", "a.yaml.bak", ".a.yaml.swp"):
        bench.directory.write(name, BAD)
    bench.directory.put("deeper", EntryKind.DIRECTORY)
    bench.directory.put(".deeper", EntryKind.DIRECTORY)
    bench.directory.put("socket", EntryKind.OTHER)
    async with bench.running():
        assert {} == await bench.snapshots.next()
        await trio.sleep(100)
    assert [] == bench.directory.reads
    assert ["a.yaml.bak: a backup", "a.yaml~: an editor's backup", "deeper: a directory",
            "socket: neither file nor directory"] == [
        record.message.removeprefix("Ignoring /manifests/") for record in caplog.records
    ]  # fmt: skip


async def test_what_was_ignored_and_is_gone_is_forgotten(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.running():
        for n in range(20):
            bench.directory.write(f".{n}.swp", BAD)
            await trio.sleep(30)
            bench.directory.remove(f".{n}.swp")
        await trio.sleep(30)
        assert {} == bench.source._ignored


@pytest.mark.parametrize("kind", [EntryKind.LOST, EntryKind.CIRCLE])
async def test_a_link_to_nothing_is_a_fault_and_costs_nothing(autojump_clock: MockClock, kind: EntryKind) -> None:
    bench = Bench()
    bench.directory.write("a.yaml", manifest("one"))
    bench.directory.put("b.yaml", kind)
    async with bench.running():
        assert {"one": "app:1"} == await bench.snapshots.next()
        assert ["b.yaml"] == bench.faults()


async def test_a_fault_is_logged_when_it_comes_and_when_it_goes_and_not_in_between(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    bench = Bench()
    bench.directory.write("a.yaml", manifest("Bad"))
    async with bench.running():
        await trio.sleep(100)
        bench.directory.write("a.yaml", manifest("good"))
        await trio.sleep(100)
    assert 2 == len(caplog.records)
    assert caplog.messages[0].startswith("Manifest fault: /manifests/a.yaml:4: metadata.name: Invalid value")
    assert "Manifest /manifests/a.yaml has no fault any more" == caplog.messages[1]


async def test_a_missing_directory_is_waited_for_and_counts_as_empty_after_a_while(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    bench = Bench()
    bench.directory.exists = False
    async with bench.running():
        assert await bench.snapshots.none_within(19)
        assert {} == await bench.snapshots.next()
        await trio.sleep(100)
        assert ["/manifests does not exist; waiting for it"] == caplog.messages
        bench.directory.write("a.yaml", manifest("one"))
        bench.directory.exists = True
        with trio.fail_after(21):
            assert {"one": "app:1"} == await bench.snapshots.next()


async def test_a_directory_that_is_swapped_for_another_costs_no_pod(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.directory.write("a.yaml", manifest("one"))
    async with bench.running():
        await bench.snapshots.next()
        bench.directory.exists = False
        bench.directory.break_watch()
        await trio.sleep(10)
        bench.directory.exists = True
        assert await bench.snapshots.none_within(60)


async def test_a_directory_that_stays_away_takes_its_pods_with_it(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.directory.write("a.yaml", manifest("one"))
    async with bench.running():
        await bench.snapshots.next()
        bench.directory.exists = False
        assert await bench.snapshots.none_within(30)
        with trio.fail_after(15):
            assert {} == await bench.snapshots.next()


async def test_a_mount_that_goes_leaves_an_empty_directory_and_costs_no_pod_when_it_comes_back(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    bench = Bench()
    bench.directory.write("a.yaml", manifest("one"))
    async with bench.running():
        await bench.snapshots.next()
        held = bench.directory.unmount()
        await trio.sleep(10)
        bench.directory.mount(held)
        assert await bench.snapshots.none_within(60)
        assert ["/manifests is another directory, without manifests; waiting for it"] == caplog.messages
        bench.directory.write("a.yaml", manifest("one", "app:2"))
        assert {"one": "app:2"} == await bench.snapshots.next()


async def test_a_mount_that_stays_away_takes_its_pods_with_it(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.directory.write("a.yaml", manifest("one"))
    async with bench.running():
        await bench.snapshots.next()
        held = bench.directory.unmount()
        bench.directory.put("lost+found", EntryKind.DIRECTORY)  # which is no manifest
        assert await bench.snapshots.none_within(19)
        with trio.fail_after(21):
            assert {} == await bench.snapshots.next()
        await trio.sleep(100)
        bench.directory.mount(held)
        with trio.fail_after(21):
            assert {"one": "app:1"} == await bench.snapshots.next()


async def test_an_unsettled_file_of_a_mount_that_went_is_not_looked_for_all_the_time(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.directory.write("a.yaml", manifest("one"))
    async with bench.running():
        await bench.snapshots.next()
        bench.directory.write("a.yaml", BAD, age_seconds=0)
        await trio.sleep(0.2)
        bench.directory.unmount()
        looks = bench.directory.looks
        assert await bench.snapshots.none_within(10)
        assert 0 < bench.directory.looks - looks < 20


async def test_another_directory_with_manifests_is_believed_at_once(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.directory.write("a.yaml", manifest("one"))
    async with bench.running():
        await bench.snapshots.next()
        bench.directory.unmount()
        bench.directory.write("b.yaml", manifest("two"))
        with trio.fail_after(2):
            assert {"two": "app:1"} == await bench.snapshots.next()


async def test_the_last_manifest_that_is_removed_takes_its_pod_at_once_also_after_a_mount_came_back(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    bench.directory.write("a.yaml", manifest("one"))
    async with bench.running():
        await bench.snapshots.next()
        bench.directory.mount(bench.directory.unmount())
        assert await bench.snapshots.none_within(60)
        bench.directory.remove("a.yaml")
        with trio.fail_after(1):
            assert {} == await bench.snapshots.next()


@pytest.mark.parametrize("kind", ["error", "hung"])
async def test_a_directory_that_cannot_be_listed_costs_no_pod(autojump_clock: MockClock, kind: str) -> None:
    bench = Bench()
    bench.directory.write("a.yaml", manifest("one"))
    async with bench.running():
        await bench.snapshots.next()
        if kind == "error":
            bench.directory.error = OSError(errno.EIO, "Input/output error")
        else:
            bench.directory.hung.add("/manifests")
        assert await bench.snapshots.none_within(100)
        (fault,) = bench.source.faults()
        assert "/manifests" == fault.source
        assert ("Input/output error" if kind == "error" else "within 30 s") in fault.problem

        bench.directory.error = None
        bench.directory.hung.clear()
        await trio.sleep(60)
        assert () == bench.source.faults()


async def test_a_file_that_hangs_or_may_not_be_read_costs_only_its_own_change(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.directory.write("a.yaml", manifest("one"))
    async with bench.running():
        await bench.snapshots.next()
        for name in ("a.yaml", "b.yaml"):
            bench.directory.write(name, manifest(name[0], "app:2"), notify=False)
        bench.directory.hung.add("/manifests/a.yaml")
        bench.directory.unreadable.add("/manifests/b.yaml")
        bench.directory.write("c.yaml", manifest("three"))
        assert {"one": "app:1", "three": "app:1"} == await bench.snapshots.next()
        assert ["a.yaml", "b.yaml"] == bench.faults()

        # Readable again, without having changed.
        bench.directory.hung.clear()
        bench.directory.unreadable.clear()
        await trio.sleep(21)
        assert {"a": "app:2", "b": "app:2", "three": "app:1"} == await bench.snapshots.next()


async def test_bug_in_reading_a_file_affects_only_that_file(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    path = bench.directory.write("a.yaml", manifest("one"))
    bench.directory.write("b.yaml", manifest("two"))
    bench.directory.bugs.add(path)
    async with bench.running():
        assert {"two": "app:1"} == await bench.snapshots.next()
        assert (path,) == bench.snapshots.invalid_manifests
        (fault,) = bench.source.faults()
        assert "cannot be read because of a bug in the agent: TypeError" in fault.problem

        await trio.sleep(100)
        assert 1 == caplog.text.count("a bug in getting it from the disk")

        bench.directory.bugs.clear()
        await trio.sleep(21)
        assert {"one": "app:1", "two": "app:1"} == await bench.snapshots.next()
        assert () == bench.source.faults()


async def test_bug_in_listing_the_directory_ends_no_pod(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.directory.write("a.yaml", manifest("one"))
    async with bench.running():
        await bench.snapshots.next()
        bench.directory.bugs.add("/manifests")
        assert await bench.snapshots.none_within(100)
        assert ["/manifests"] == bench.faults()


async def test_a_file_that_takes_long_to_make_sense_of_does_not_hold_up_the_others(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    path = bench.directory.write("a.yaml", manifest("one"))
    async with bench.running():
        await bench.snapshots.next()
        bench.threads.hung.add(f"load {path}")
        bench.directory.write("a.yaml", manifest("one", "app:2"), notify=False)
        bench.directory.write("b.yaml", manifest("two"))
        assert {"one": "app:1", "two": "app:1"} == await bench.snapshots.next()
        (fault,) = bench.source.faults()
        assert f"{path}: cannot be read within 30 s (make it smaller, or split it)" == str(fault)

        bench.directory.write("b.yaml", manifest("two", "app:2"))
        with trio.fail_after(1):  # an earlier reading that goes on is not waited for again
            assert {"one": "app:1", "two": "app:2"} == await bench.snapshots.next()
        assert "bug" not in caplog.text

        bench.threads.hung.clear()
        assert await bench.snapshots.none_within(300), "making sense of it costs a processor: not again so soon"
        await trio.sleep(LOAD_AGAIN_SECONDS)
        assert {"one": "app:2", "two": "app:2"} == await bench.snapshots.next()


async def test_a_file_that_took_long_to_make_sense_of_is_read_as_soon_as_it_changes(autojump_clock: MockClock) -> None:
    bench = Bench()
    path = bench.directory.write("a.yaml", manifest("one"))
    bench.threads.hung.add(f"load {path}")
    async with bench.running():
        assert {} == await bench.snapshots.next()
        bench.threads.hung.clear()
        bench.directory.write("a.yaml", manifest("one", "app:2"))
        assert {"one": "app:2"} == await bench.snapshots.next()


async def test_file_with_excessive_aliases_is_a_fault_and_others_are_read(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    args = f", args: [&a {'x' * 1_000_000}, {', '.join(['*a'] * 10)}]}}"
    bench.directory.write("a.yaml", manifest("one").replace("}", args))
    bench.directory.write("b.yaml", manifest("two"))
    async with bench.running():
        assert {"two": "app:1"} == await bench.snapshots.next()
        (fault,) = bench.source.faults()
        assert (7, "spec.containers[0].args[5]") == (fault.line, fault.path)
        assert "aliases bring more than" in fault.problem


async def test_a_lost_watch_is_begun_again(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.running():
        await bench.snapshots.next()
        bench.directory.break_watch()
        await trio.sleep(2)
        bench.directory.write("a.yaml", manifest("one"))
        with trio.fail_after(1):
            await bench.snapshots.next()


async def test_without_a_watch_the_regular_looks_must_do_and_that_is_said_once(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    bench.directory.watchable = False
    async with bench.running():
        await bench.snapshots.next()
        bench.directory.write("a.yaml", manifest("one"))
        with trio.fail_after(21):
            await bench.snapshots.next()
        await trio.sleep(100)
    assert 1 == len(caplog.messages)
    assert "Too many open files" in caplog.messages[0]


async def test_an_operator_may_want_regular_looks_several_times_a_second(autojump_clock: MockClock) -> None:
    bench = Bench(file_check_seconds=0.25)
    bench.directory.watchable = False
    async with bench.running():
        await bench.snapshots.next()
        bench.directory.write("a.yaml", manifest("one"))
        with trio.fail_after(0.5):
            assert {"one": "app:1"} == await bench.snapshots.next()


async def test_a_single_file_may_have_any_name(autojump_clock: MockClock) -> None:
    bench = Bench("/etc/pods.bak")
    bench.directory.path = "/etc"
    bench.directory.write("pods.bak", manifest("one"))
    bench.directory.path = "/etc/pods.bak"
    async with bench.running():
        assert {"one": "app:1"} == await bench.snapshots.next()


async def test_a_file_that_was_bad_from_the_beginning_may_have_brought_anything_until_it_is_mended_or_gone(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    mended = bench.directory.write("a.yaml", BAD)
    removed = bench.directory.write("b.yaml", BAD)
    async with bench.running():
        assert {} == await bench.snapshots.next()
        assert (mended, removed) == bench.snapshots.invalid_manifests
        bench.directory.write("late.yaml", BAD)
        bench.directory.remove("b.yaml")
        assert {} == await bench.snapshots.next()
        assert (mended,) == bench.snapshots.invalid_manifests
        # The doubt ends with the very snapshot that brings the pod.
        bench.directory.write("a.yaml", manifest("one"))
        assert {"one": "app:1"} == await bench.snapshots.next()
        assert () == bench.snapshots.invalid_manifests
        bench.directory.write("a.yaml", BAD)
        assert await bench.snapshots.none_within(50)


async def test_claims_are_settled_only_when_a_file_changed(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, settled = Bench(), []

    def counted(states: Mapping[str, FileState], owners: Mapping[Claim, str], begun: Collection[str] = ()) -> Claims:
        settled.append(len(states))
        return claim(states, owners, begun)

    monkeypatch.setattr("trikubelet.sources.file.claim", counted)
    bench.directory.write("a.yaml", manifest("one"))
    async with bench.running():
        await trio.sleep(100)
        assert [1] == settled
        bench.directory.write("b.yaml", manifest("two"))
        await trio.sleep(100)
        assert [1, 2] == settled
        bench.directory.remove("a.yaml")
        await trio.sleep(100)
        assert [1, 2, 1] == settled


async def test_a_file_for_which_there_is_no_thread_is_read_at_the_next_look(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    bench.directory.write("a.yaml", manifest("one"))
    async with bench.running():
        assert {"one": "app:1"} == await bench.snapshots.next()
        bench.threads.error = OSError(errno.EAGAIN, "cannot start a thread")
        bench.directory.write("a.yaml", manifest("one", "app:2"))
        assert await bench.snapshots.none_within(50)
        assert ["a.yaml"] == bench.faults()

        bench.threads.error = None
        assert {"one": "app:2"} == await bench.snapshots.next()
        assert [] == bench.faults()
    assert "bug" not in caplog.text
    assert 1 == len([one for one in caplog.messages if "cannot start a thread" in one])


async def test_manifest_that_is_removed_and_written_again_restarts_its_pod(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.directory.write("a.yaml", manifest("one"))
    bench.directory.write("b.yaml", manifest("two"))

    async with bench.running():
        assert {"one": "app:1", "two": "app:1"} == await bench.snapshots.next()
        for life in (1, 2):
            bench.directory.remove("a.yaml")
            bench.directory.write("a.yaml", manifest("one"))
            assert {"one": "app:1", "two": "app:1"} == await bench.snapshots.next()
            assert [life] == bench.snapshots.lives


def test_single_manifest_file_that_is_written_again_counts_whatever_it_is_called() -> None:
    rewritten = Rewritten("/etc/pod")
    rewritten.note({"other"}, {"/etc/pod"})
    assert frozenset() == rewritten.unlinked()
    rewritten.note({"pod"}, {"/etc/pod"})
    assert {"/etc/pod"} == rewritten.unlinked()


async def test_manifest_that_is_removed_and_written_slowly_restarts_its_pod_once_it_is_whole(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    bench.directory.write("a.yaml", manifest("one"))

    async with bench.running():
        assert {"one": "app:1"} == await bench.snapshots.next()
        bench.directory.remove("a.yaml")
        bench.directory.write("a.yaml", BAD, age_seconds=0)
        assert await bench.snapshots.none_within(0.5)
        bench.directory.write("a.yaml", BAD)
        assert await bench.snapshots.none_within(60)
        bench.directory.write("a.yaml", manifest("one"))
        assert {"one": "app:1"} == await bench.snapshots.next()
        assert [1] == bench.snapshots.lives


async def test_manifest_that_is_renamed_rewritten_or_touched_restarts_nothing(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.directory.write("a.yaml", manifest("one"))

    async with bench.running():
        assert {"one": "app:1"} == await bench.snapshots.next()
        bench.directory.write("a.yaml", manifest("one"))  # also what a rename over it, a touch or a chmod looks like
        assert {"one": "app:1"} == await bench.snapshots.next()
        assert [] == bench.snapshots.lives
        bench.directory.move_away("a.yaml")
        bench.directory.write("a.yaml", manifest("one"))
        assert {"one": "app:1"} == await bench.snapshots.next()
        assert [] == bench.snapshots.lives


async def test_manifest_that_is_removed_for_longer_has_no_second_restart_when_it_is_back(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    bench.directory.write("a.yaml", manifest("one"))
    bench.directory.write("b.yaml", manifest("two"))

    async with bench.running():
        await bench.snapshots.next()
        bench.directory.remove("a.yaml")
        assert {"two": "app:1"} == await bench.snapshots.next()
        bench.directory.write("a.yaml", manifest("one"))
        assert {"one": "app:1", "two": "app:1"} == await bench.snapshots.next()
        assert [] == bench.snapshots.lives
        assert await bench.snapshots.none_within(60)
