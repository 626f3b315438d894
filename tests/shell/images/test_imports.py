"""Imports from the image directory: which archive is taken, what a damaged one concerns, what is pinned."""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.core.pull_failures import BACKOFF_FIRST_SECONDS
from trikubelet.images.imports import ArchiveImports, PinnedImages
from trikubelet.model.bounds import Bounds
from trikubelet.model.errors import ImportFailed
from trikubelet.model.image_archives import Archive, ArchivedImage
from trikubelet.model.runtime import RuntimeInfo
from trikubelet.model.runtime_errors import NotImplementedByRuntime, RuntimeUnavailable
from trikubelet.testing.memory_images import MemoryImages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trio.testing import MockClock

    from trikubelet.model.runtime import ImageInfo
    from trikubelet.model.usage import ImageStores

APP, OTHER = "docker.io/library/app:1", "r.io/other:2"


def archive(path: str, *names: str, changed_ns: int = 1, problem: str = "") -> Archive:
    images = tuple(ArchivedImage(name, name) for name in names)
    return Archive(path, images, is_docker=True, problem=problem, size_bytes=1000, changed_ns=changed_ns)


class Store(MemoryImages):
    """A runtime's images, with what it reports on itself, and what programs put into it."""

    name = "containerd"
    away = False
    coming_at = 0.0

    def put(self, *images: str) -> None:
        self._present.update(images)

    async def info(self) -> RuntimeInfo:
        if self.away:
            raise RuntimeUnavailable("no socket")
        return RuntimeInfo(self.name, "1", "v1", ())

    async def stores(self) -> ImageStores:
        raise NotImplementedByRuntime("ImageFsInfo")

    async def image_status(self, image: str) -> ImageInfo | None:
        if self.away:
            raise RuntimeUnavailable("no socket")
        found = await super().image_status(image)
        return found if trio.current_time() >= self.coming_at else None


class Directory:
    """Archives in memory, and a program that takes ten seconds for an import."""

    def __init__(self, store: Store, *archives: Archive) -> None:
        self.archives: Sequence[Archive] = archives
        self.damaged: dict[str, str] = {}
        self.runs: list[str] = []
        self.removed: list[Sequence[str]] = []
        self.unreadable = False
        self.loses = self.scanning = False
        self.delay_seconds = 0.0
        self._store = store

    async def scan(self) -> Sequence[Archive]:
        assert not self.scanning, "a second thread would be refused"
        self.scanning = True
        await trio.lowlevel.checkpoint()
        self.scanning = False
        if self.unreadable:
            raise OSError(errno.ENOENT, "No such file or directory")
        return self.archives

    async def run(self, command: Sequence[str]) -> None:
        if "remove" in command:
            self.removed.append(command[command.index("remove") + 1 :])
            raise ImportFailed("ctr ended with 1: not found")
        path = command[-1]
        self.runs.append(path)
        await trio.sleep(10)
        if path in self.damaged:
            raise ImportFailed(f"ctr ended with 1: {self.damaged[path]}")
        if not self.loses:
            self._store.coming_at = trio.current_time() + self.delay_seconds
            self._store.put(*(image.name for one in self.archives if one.path == path for image in one.images))


class Bench:
    def __init__(self, *archives: Archive) -> None:
        self.store = Store()
        self.directory = Directory(self.store, *archives)
        self.imports = ArchiveImports(self.directory, self.store, self.store, "/run/c.sock", Bounds())  # type: ignore[arg-type]
        self.pinned = PinnedImages(self.store, self.imports)

    async def pins(self) -> list[str]:
        return [one.repo_tags[0] for one in await self.pinned.list_images() if one.pinned]


async def test_an_image_is_imported_from_the_archive_that_lists_it(autojump_clock: MockClock) -> None:
    bench = Bench(archive("/other.tar", OTHER), archive("/app.tar", APP))
    assert "/app.tar" == await bench.imports.bring("app:1")
    assert ["/app.tar"] == bench.directory.runs
    assert None is await bench.imports.bring("app:2")
    assert None is await bench.imports.bring("app@sha256:" + "0" * 64)


async def test_pods_that_want_an_archive_at_the_same_time_share_one_import(autojump_clock: MockClock) -> None:
    bench = Bench(archive("/both.tar", APP, OTHER))
    async with trio.open_nursery() as nursery:
        for image in ("app:1", "app:1", OTHER):
            nursery.start_soon(bench.imports.bring, image)
    assert ["/both.tar"] == bench.directory.runs
    assert {} == bench.imports._importing


async def test_a_damaged_archive_delays_no_other(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bench = Bench(archive("/cut.tar", problem="is damaged"), archive("/bad.tar", APP), archive("/good.tar", OTHER))
    bench.directory.damaged["/bad.tar"] = "content digest sha256:1: not found"

    async def fails() -> None:
        with pytest.raises(ImportFailed, match=r"^/bad.tar: ctr ended with 1: content digest sha256:1: not found$"):
            await bench.imports.bring("app:1")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(fails)
        with trio.fail_after(11):
            assert "/good.tar" == await bench.imports.bring(OTHER)
    for _ in range(3):
        await bench.imports.bring(OTHER)
    assert 1 == caplog.text.count("Ignoring image archive /cut.tar: is damaged")
    assert 1 == caplog.text.count(f"Cannot import image {APP}: /bad.tar: ctr ended with 1")


async def test_the_next_archive_with_the_image_is_tried_after_one_that_fails(autojump_clock: MockClock) -> None:
    bench = Bench(archive("/a.tar", APP), archive("/b.tar", APP))
    bench.directory.damaged["/a.tar"] = "broken"
    assert "/b.tar" == await bench.imports.bring("app:1")

    bench = Bench(archive("/a.tar", APP), archive("/b.tar", APP))
    bench.directory.damaged |= {"/a.tar": "broken", "/b.tar": "cut"}
    with pytest.raises(ImportFailed, match=r"/a.tar: ctr ended with 1: broken; /b.tar: ctr ended with 1: cut"):
        await bench.imports.bring("app:1")


async def test_a_failed_import_is_repeated_after_its_backoff_or_for_a_changed_file(
    autojump_clock: MockClock,
) -> None:
    bench = Bench(archive("/a.tar", APP))
    bench.directory.damaged["/a.tar"] = "broken"
    for _ in range(3):
        with pytest.raises(ImportFailed, match="broken"):
            await bench.imports.bring("app:1")
    assert ["/a.tar"] == bench.directory.runs
    await trio.sleep(BACKOFF_FIRST_SECONDS)
    with pytest.raises(ImportFailed, match="broken"):
        await bench.imports.bring("app:1")
    assert 2 == len(bench.directory.runs)

    bench.directory.damaged.clear()
    bench.directory.archives = [archive("/a.tar", APP, changed_ns=2)]
    assert "/a.tar" == await bench.imports.bring("app:1")


async def test_an_image_that_the_runtime_lists_a_moment_after_its_import_is_waited_for(
    autojump_clock: MockClock,
) -> None:
    bench = Bench(archive("/a.tar", APP))
    bench.directory.delay_seconds = 2
    assert "/a.tar" == await bench.imports.bring("app:1")
    assert ["/a.tar"] == bench.directory.runs


async def test_a_failed_import_removes_the_images_that_it_may_have_left_and_no_others(
    autojump_clock: MockClock,
) -> None:
    third = "r.io/third:1"
    bench = Bench(archive("/a.tar", APP, OTHER, third))
    bench.store.put(OTHER)
    bench.directory.damaged["/a.tar"] = "broken"
    with pytest.raises(ImportFailed, match="broken"):
        await bench.imports.bring("app:1")
    assert [(APP, third)] == [tuple(one) for one in bench.directory.removed]


async def test_a_failure_is_forgotten_with_its_archive(autojump_clock: MockClock) -> None:
    bench = Bench(archive("/a.tar", APP))
    bench.directory.damaged["/a.tar"] = "broken"
    with pytest.raises(ImportFailed, match="broken"):
        await bench.imports.bring("app:1")
    bench.directory.archives = []
    assert None is await bench.imports.bring("app:1")
    assert {} == bench.imports._failures


async def test_images_of_sandboxes_are_imported_when_the_agent_starts(autojump_clock: MockClock) -> None:
    bad, good = archive("/bad.tar", "r.io/x/pause:3"), archive("/good.tar", "registry.k8s.io/pause:3.10")
    bench = Bench(archive("/app.tar", APP, "r.io/pause/app:1"), bad, good)
    bench.directory.damaged["/bad.tar"] = "broken"
    await bench.imports.bring_sandbox_images()
    await bench.imports.bring_sandbox_images()
    assert {"/good.tar", "/bad.tar"} == set(bench.directory.runs)
    assert ["registry.k8s.io/pause:3.10"] == [one.repo_tags[0] for one in await bench.store.list_images()]


async def test_an_image_that_the_runtime_has_not_after_its_import_is_a_failure(autojump_clock: MockClock) -> None:
    bench = Bench(archive("/a.tar", APP))
    bench.directory.loses = True
    with pytest.raises(ImportFailed, match=f"/a.tar was imported as {APP}, but containerd has no image {APP}"):
        await bench.imports.bring("app:1")


async def test_the_runtime_and_the_directory_are_named_where_they_do_not_answer(autojump_clock: MockClock) -> None:
    bench = Bench(archive("/a.tar", APP))
    bench.store.away = True
    with pytest.raises(ImportFailed, match=r"^/a.tar: the runtime does not answer: no socket$"):
        await bench.imports.bring("app:1")
    bench.store.away, bench.store.name = False, "docker"
    with pytest.raises(ImportFailed, match=r"^/a.tar: not supported: archives cannot be imported into the runtime"):
        await bench.imports.bring("app:1")
    bench.directory.unreadable = True
    with pytest.raises(ImportFailed, match=r"^cannot read the image directory: No such file or directory$"):
        await bench.imports.bring("app:1")


async def test_archived_images_are_pinned_and_all_are_while_the_directory_was_never_read(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(archive("/a.tar", APP))
    bench.store.put(APP, OTHER)
    bench.directory.unreadable = True
    assert [APP, OTHER] == await bench.pins() == await bench.pins()
    assert 1 == caplog.text.count("Cannot read the image directory; its images are not garbage-collected: [Errno 2]")

    bench.directory.unreadable = False
    assert [APP] == await bench.pins()
    bench.directory.unreadable = True
    assert [APP] == await bench.pins()
    bench.directory.unreadable, bench.directory.archives = False, [archive("/a.tar", OTHER)]
    assert [OTHER] == await bench.pins()
