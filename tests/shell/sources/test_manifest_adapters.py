"""Real files, real inotify, a real HTTP server on loopback: the adapters behind the manifest sources."""

from __future__ import annotations

import errno
import gzip
import os
import threading
import tracemalloc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import h11
import pytest
import trio
from inotify_simple import INotify

from shell.portkit import port_of_nobody
from shell.sources.sourcekit import Snapshots, manifest
from trikubelet.host.clock import SystemClock
from trikubelet.host.manifests import DiskManifests
from trikubelet.host.watch import InotifyWatcher
from trikubelet.kit.threads import ThreadPool
from trikubelet.kube.dial import reason_of
from trikubelet.kube.manifest_url import ManifestUrl
from trikubelet.model.bounds import Bounds
from trikubelet.model.manifest_places import EntryKind, ManifestAnswer
from trikubelet.sources.file import FileSource
from trikubelet.testing.memory_host import MemoryPodFiles

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

BYTES_MAX = 10_000


def disk(path: Path) -> DiskManifests:
    return DiskManifests(str(path), BYTES_MAX, ThreadPool("manifests", 2))


def source(path: Path, snapshots: Snapshots) -> FileSource:
    threads = ThreadPool("manifests", 4)
    files = DiskManifests(str(path), BYTES_MAX, threads)
    # A regular look would come after the test has failed.
    bounds = Bounds(file_check_seconds=1000)
    watcher, slot = InotifyWatcher(threads), snapshots.slot
    return FileSource(str(path), "node", files, MemoryPodFiles(), watcher, threads, SystemClock(), slot, bounds)


def replace_file(path: Path, text: str) -> None:
    """As careful editors and package tools do."""
    beside = path.with_name(".beside")
    beside.write_text(text)
    beside.rename(path)


async def next_with(snapshots: Snapshots, expected: dict[str, str]) -> None:
    """Wait for a snapshot; earlier ones may show the way there."""
    with trio.fail_after(60):
        while await snapshots.next() != expected:
            pass


async def test_inotify_tells_of_new_changed_replaced_and_removed_manifests(tmp_path: Path) -> None:
    snapshots = Snapshots()
    file = tmp_path / "a.yaml"
    async with trio.open_nursery() as nursery:
        await nursery.start(source(tmp_path, snapshots).run)
        await next_with(snapshots, {})
        file.write_text(manifest("one"))
        await next_with(snapshots, {"one": "app:1"})
        file.write_text(manifest("one", "app:2"))
        await next_with(snapshots, {"one": "app:2"})
        replace_file(file, manifest("one", "app:3"))
        await next_with(snapshots, {"one": "app:3"})
        os.link(file, tmp_path / "b.yaml")
        file.unlink()
        await next_with(snapshots, {"one": "app:3"})
        (tmp_path / "b.yaml").unlink()
        await next_with(snapshots, {})
        nursery.cancel_scope.cancel()


async def test_a_single_file_is_followed_through_being_replaced(tmp_path: Path) -> None:
    snapshots = Snapshots()
    file = tmp_path / "pods"
    file.write_text(manifest("one"))
    async with trio.open_nursery() as nursery:
        await nursery.start(source(file, snapshots).run)
        await next_with(snapshots, {"one": "app:1"})
        (tmp_path / "other").write_text("not ours")
        replace_file(file, manifest("one", "app:2"))
        await next_with(snapshots, {"one": "app:2"})
        replace_file(file, manifest("one", "app:3"))
        await next_with(snapshots, {"one": "app:3"})
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("path", ["link", "link/below", "second"], ids=["itself", "on the way", "behind another"])
async def test_a_watch_ends_when_a_link_on_its_way_is_swapped_and_the_next_is_of_the_new_directory(
    tmp_path: Path, path: str
) -> None:
    for name in ("old", "new"):
        (tmp_path / name / "below").mkdir(parents=True)
    (tmp_path / "link").symlink_to("old")
    (tmp_path / "second").symlink_to("link")
    watcher = InotifyWatcher(ThreadPool("manifests", 1))
    with trio.fail_after(60):
        async with watcher.watch(str(tmp_path / path)) as changes:
            (tmp_path / "next").symlink_to("new")
            (tmp_path / "next").rename(tmp_path / "link")
            with pytest.raises(OSError, match="removed or replaced"):
                await anext(changes)
        async with watcher.watch(str(tmp_path / path)) as changes:
            (tmp_path / "neighbour").touch()
            (tmp_path / path / "a.yaml").touch()
            await anext(changes)


@pytest.mark.parametrize("watched", ["", "a.yaml"], ids=["directory", "file"])
async def test_watch_names_what_was_unlinked_and_not_what_was_renamed_or_touched(tmp_path: Path, watched: str) -> None:
    file, beside = tmp_path / "a.yaml", tmp_path / "beside"
    file.write_text("x")
    with trio.fail_after(60):
        async with InotifyWatcher(ThreadPool("manifests", 1)).watch(str(tmp_path / watched)) as changes:
            beside.write_text("x")
            beside.rename(file)
            file.rename(beside)
            file.write_text("x")
            file.touch()
            file.chmod(0o600)
            assert frozenset() == await anext(changes)
            file.unlink()
            file.write_text("x")
            assert frozenset({"a.yaml"}) == await anext(changes)


async def test_a_watch_needs_no_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with trio.fail_after(60):
        async with InotifyWatcher(ThreadPool("manifests", 1)).watch(str(tmp_path)) as changes:
            (tmp_path / "a.yaml").touch()
            await anext(changes)


async def test_a_watch_ends_when_its_directory_goes(tmp_path: Path) -> None:
    path = tmp_path / "manifests"
    path.mkdir()
    async with InotifyWatcher(ThreadPool("manifests", 1)).watch(str(path)) as changes:
        path.rmdir()
        with trio.fail_after(60), pytest.raises(OSError, match="removed or replaced"):
            async for _ in changes:
                pass


async def test_a_watch_that_is_given_up_while_it_begins_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[INotify] = []
    began, let_go, add_watch = threading.Event(), threading.Event(), INotify.add_watch

    def slowly(inotify: INotify, path: str, mask: int) -> int:
        made.append(inotify)
        began.set()
        let_go.wait()
        return int(add_watch(inotify, path, mask))

    async def watch() -> None:
        async with InotifyWatcher(threads).watch(str(tmp_path)):
            pass

    monkeypatch.setattr(INotify, "add_watch", slowly)
    threads = ThreadPool("manifests", 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await trio.to_thread.run_sync(began.wait)
        nursery.cancel_scope.cancel()
    assert [False] == [inotify.closed for inotify in made]
    let_go.set()
    while threads.running("watch "):
        await trio.lowlevel.checkpoint()

    assert [True] == [inotify.closed for inotify in made]


async def test_where_an_earlier_beginning_hangs_nothing_can_be_watched_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, let_go = threading.Event(), threading.Event()

    def hang(*_: object) -> int:
        began.set()
        assert let_go.wait(60)
        return 1

    async def watch() -> None:
        async with watcher.watch(str(tmp_path)):
            pass

    monkeypatch.setattr(INotify, "add_watch", hang)
    watcher = InotifyWatcher(ThreadPool("manifests", 2))
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            await trio.to_thread.run_sync(began.wait)
            nursery.cancel_scope.cancel()
        with pytest.raises(OSError, match="an earlier operation has not ended yet"):
            await watch()
    finally:
        let_go.set()


async def test_what_does_not_exist_cannot_be_watched(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        async with InotifyWatcher(ThreadPool("manifests", 1)).watch(str(tmp_path / "missing")):
            pass


async def test_entries_are_told_apart_by_what_stands_behind_their_links(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to-file").symlink_to("file")
    (tmp_path / "to-nothing").symlink_to("nothing")
    (tmp_path / "through-a-file").symlink_to("file/nothing")
    (tmp_path / "to-itself").symlink_to("to-itself")

    entries = {Path(entry.path).name: entry for entry in (await disk(tmp_path).listing()).entries}

    assert {
        "directory": EntryKind.DIRECTORY,
        "file": EntryKind.FILE,
        "pipe": EntryKind.OTHER,
        "to-file": EntryKind.FILE,
        "to-nothing": EntryKind.LOST,
        "through-a-file": EntryKind.LOST,
        "to-itself": EntryKind.CIRCLE,
    } == {name: entry.kind for name, entry in entries.items()}
    assert entries["file"].stamp == entries["to-file"].stamp


async def test_a_directory_in_the_place_of_another_is_known_for_one(tmp_path: Path) -> None:
    place = tmp_path / "manifests"
    place.mkdir()
    before = await disk(place).listing()
    (place / "a.yaml").touch()
    written = await disk(place).listing()
    (tmp_path / "other").mkdir()
    place.rename(tmp_path / "moved")
    (tmp_path / "other").rename(place)
    after = await disk(place).listing()

    assert before.directory == written.directory
    assert after.directory != before.directory
    assert () == after.entries


async def test_a_file_with_an_old_time_but_new_content_has_another_stamp(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("one")
    os.utime(file, ns=(0, 0))
    (before,) = (await disk(file).listing()).entries
    file.write_text("two")
    os.utime(file, ns=(0, 0))
    (after,) = (await disk(file).listing()).entries

    assert before.stamp.changed_ns > 0
    assert before.stamp != after.stamp


async def test_a_file_is_read_up_to_the_bound_and_nothing_but_files_are(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"x" * BYTES_MAX)
    assert BYTES_MAX == len(await disk(tmp_path).read(str(file)))
    file.write_bytes(b"x" * (BYTES_MAX + 1))
    with pytest.raises(OSError, match="larger than") as too_large:
        await disk(tmp_path).read(str(file))
    assert errno.EFBIG == too_large.value.errno
    os.mkfifo(tmp_path / "pipe")
    with trio.fail_after(60), pytest.raises(OSError, match="not a regular file"):
        await disk(tmp_path).read(str(tmp_path / "pipe"))
    with pytest.raises(FileNotFoundError):
        await disk(tmp_path / "missing").listing()


async def test_a_directory_with_far_too_many_names_is_not_the_right_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trikubelet.host.manifests.NAMES_MAX", 2)
    for name in "ab":
        (tmp_path / name).touch()
    assert 2 == len((await disk(tmp_path).listing()).entries)
    (tmp_path / "c").touch()
    with pytest.raises(OSError, match="more than 2 names"):
        await disk(tmp_path).listing()


@asynccontextmanager
async def http_server(
    status: int, body: bytes, requests: list[h11.Request], headers: tuple[tuple[str, str], ...] = ()
) -> AsyncGenerator[str, None]:
    """A server that gives one answer to everybody; its address."""

    async def serve(stream: trio.SocketStream) -> None:
        connection = h11.Connection(h11.SERVER)
        async with stream:
            while not isinstance(event := connection.next_event(), h11.EndOfMessage | h11.ConnectionClosed):
                if event is h11.NEED_DATA:
                    connection.receive_data(await stream.receive_some())
                elif isinstance(event, h11.Request):
                    requests.append(event)
            length = [("content-length", str(len(body)))]
            answer = h11.Response(status_code=status, headers=[*length, *headers])
            for part in (answer, h11.Data(data=body), h11.EndOfMessage()):
                try:
                    await stream.send_all(connection.send(part) or b"")
                except trio.BrokenResourceError:  # the reader had enough
                    return

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        yield f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/pods"
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def redirecting(requests: list[h11.Request], place: str) -> AsyncGenerator[str, None]:
    """A server that sends to another place, or to itself once if there is none; its address."""

    async def serve(stream: trio.SocketStream) -> None:
        connection = h11.Connection(h11.SERVER)
        async with stream:
            while (event := connection.next_event()) is h11.NEED_DATA:
                connection.receive_data(await stream.receive_some())
            assert isinstance(event, h11.Request)
            requests.append(event)
            if not place and len(requests) > 1:
                await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody")
            else:
                head = f"HTTP/1.1 307 x\r\ncontent-length: 0\r\nlocation: {place or '/again'}\r\n\r\n"
                await stream.send_all(head.encode())

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        yield f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/pods"
        nursery.cancel_scope.cancel()


async def test_fetches_that_are_given_up_while_they_connect_leave_nothing_behind() -> None:
    reached = trio.Semaphore(0)
    left = trio.Semaphore(0)

    async def silent(stream: trio.SocketStream) -> None:
        async with stream:
            reached.release()
            while await stream.receive_some():  # until the other side closes
                pass
            left.release()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, silent, 0, host="127.0.0.1"))
        fetch = ManifestUrl(f"https://127.0.0.1:{listeners[0].socket.getsockname()[1]}/pods", {}, BYTES_MAX)
        for _ in range(3):
            async with trio.open_nursery() as fetching:
                fetching.start_soon(fetch.fetch)
                await reached.acquire()
                fetching.cancel_scope.cancel()
            with trio.fail_after(60):
                await left.acquire()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("scheme", ["http://", ""])
async def test_a_proxy_of_the_environment_is_asked_for_a_tunnel_but_not_for_what_it_leaves_out(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    asked: list[h11.Request] = []
    async with http_server(502, b"", asked) as proxy, http_server(200, b"body", []) as url:
        monkeypatch.setenv("http_proxy", proxy.replace("http://", scheme).rstrip("/"))
        monkeypatch.setenv("no_proxy", "")
        with trio.fail_after(60), pytest.raises(ConnectionError, match="refuses to connect"):
            await ManifestUrl(url, {}, BYTES_MAX).fetch()
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        with trio.fail_after(60):
            assert ManifestAnswer(200, b"body") == await ManifestUrl(url, {}, BYTES_MAX).fetch()
    assert [b"CONNECT"] == [request.method for request in asked]


async def test_a_url_is_fetched_with_its_headers_each_time() -> None:
    requests: list[h11.Request] = []
    async with http_server(200, b"body", requests) as url:
        fetch = ManifestUrl(url, {"X-Node": ["a", "b", "é", "\udcff"]}, BYTES_MAX)
        with trio.fail_after(60):
            assert ManifestAnswer(200, b"body") == await fetch.fetch()
            assert ManifestAnswer(200, b"body") == await fetch.fetch()
    assert 2 == len(requests)
    assert [b"a", b"b", "é".encode(), b"\xff"] == [value for name, value in requests[1].headers if name == b"x-node"]


async def test_any_status_is_an_answer() -> None:
    async with http_server(404, b"no", []) as url:
        with trio.fail_after(60):
            assert ManifestAnswer(404, b"no") == await ManifestUrl(url, {}, BYTES_MAX).fetch()


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "x-gzip", "identity"])
async def test_an_answer_is_asked_for_as_it_is_or_packed_once_and_read(coding: str) -> None:
    requests: list[h11.Request] = []
    body = b"body" if coding == "identity" else gzip.compress(b"body")
    async with http_server(200, body, requests, (("content-encoding", coding),)) as url:
        with trio.fail_after(60):
            assert ManifestAnswer(200, b"body") == await ManifestUrl(url, {}, BYTES_MAX).fetch()
    assert [b"gzip"] == [value for name, value in requests[0].headers if name == b"accept-encoding"]


LARGE = 30_000_000
PACKED = gzip.compress(bytes(LARGE), compresslevel=1)
PACKED_TWICE = gzip.compress(PACKED)


@pytest.mark.parametrize(
    ("status", "headers", "body", "told"),
    [
        pytest.param(200, [("content-encoding", "gzip")], PACKED, "larger", id="bomb"),
        pytest.param(200, [("content-encoding", "gzip, gzip")], PACKED_TWICE, "gzip, gzip", id="packed twice"),
        pytest.param(200, [("content-encoding", "gzip")] * 2, PACKED_TWICE, "gzip, gzip", id="in two headers"),
        pytest.param(200, [("content-encoding", "br")], b"x", r"\(Content-Encoding: br\)", id="another coding"),
        pytest.param(200, [("content-encoding", "x" * 5000)], b"x", r": x{100}\)$", id="a coding without end"),
        pytest.param(404, [("content-encoding", "deflate")], b"x", "deflate", id="an answer that is none"),
        pytest.param(
            302, [("content-encoding", "gzip, gzip"), ("location", "/")], PACKED_TWICE, "redirected", id="a redirect"
        ),
    ],
)
async def test_what_a_small_answer_blows_up_to_is_never_in_memory(
    status: int, headers: list[tuple[str, str]], body: bytes, told: str
) -> None:
    async with http_server(status, body, [], tuple(headers)) as url:
        tracemalloc.start()
        try:
            with trio.fail_after(60), pytest.raises(ConnectionError, match=told):
                await ManifestUrl(url, {}, BYTES_MAX).fetch()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert LARGE / 10 > peak


async def test_a_redirect_is_followed() -> None:
    async with http_server(200, b"body", []) as url, http_server(302, b"", [], (("location", url),)) as old:
        with trio.fail_after(60):
            assert ManifestAnswer(200, b"body") == await ManifestUrl(old, {}, BYTES_MAX).fetch()


SECRETS = ("Authorization", "Cookie", "X-Node")


@pytest.mark.parametrize(("to_another", "sent"), [(True, {"x-node"}), (False, {"authorization", "cookie", "x-node"})])
@pytest.mark.parametrize("login", ["", "me:secret@"])
async def test_what_is_for_one_server_is_not_sent_to_where_a_redirect_leads_elsewhere(
    to_another: bool, sent: set[str], login: str
) -> None:
    requests: list[h11.Request] = []
    async with http_server(200, b"body", requests) as there, redirecting(requests, there if to_another else "") as url:
        with trio.fail_after(60):
            fetch = ManifestUrl(url.replace("//", f"//{login}"), {name: ["a"] for name in SECRETS}, BYTES_MAX)
            assert ManifestAnswer(200, b"body") == await fetch.fetch()
    first, second = ({name.decode() for name, _ in request.headers} for request in requests)
    hosts = [value for request in requests for name, value in request.headers if name == b"host"]
    names = {name.lower() for name in SECRETS}
    assert (names, sent, to_another) == (first & names, second & names, hosts[0] != hosts[1])


async def test_cookies_are_not_kept() -> None:
    requests: list[h11.Request] = []
    async with http_server(200, b"body", requests, (("set-cookie", "a=b"),)) as url:
        fetch = ManifestUrl(url, {}, BYTES_MAX)
        with trio.fail_after(60):
            await fetch.fetch()
            await fetch.fetch()
    assert [] == [value for name, value in requests[1].headers if name == b"cookie"]


@pytest.mark.parametrize("place", ["http://a..b/x", "http://.a/", f"http://{'a' * 64}/", "http://\u2603.net/"])
async def test_a_redirect_to_what_can_be_no_host_is_a_failure(place: str) -> None:
    async with http_server(302, b"", [], (("location", place),)) as url:
        with trio.fail_after(60), pytest.raises(ConnectionError):
            await ManifestUrl(url, {}, BYTES_MAX).fetch()


async def test_a_redirect_that_never_ends_is_reported_with_where_it_led_and_without_the_password() -> None:
    async with http_server(302, b"", [], (("location", "/again"),)) as url:
        told = rf"^redirected more than 10 times, the last time to {url.removesuffix('/pods')}/again$"
        with trio.fail_after(60), pytest.raises(ConnectionError, match=told):
            await ManifestUrl(url.replace("//", "//me:secret@"), {}, BYTES_MAX).fetch()


ONE_DOCUMENT = b"kind: Pod\n"


@pytest.mark.parametrize(
    ("head", "has_length"),
    [(b"Content-Length: 10\r\n", True), (b"Transfer-Encoding: chunked\r\n", True), (b"", False)],
    ids=["length", "chunks", "neither"],
)
async def test_an_answer_that_is_cut_is_none_where_that_can_be_known(head: bytes, has_length: bool) -> None:
    async def serve(stream: trio.SocketStream, cut: bool) -> None:
        async with stream:
            await stream.receive_some()
            body = ONE_DOCUMENT
            if b"chunked" in head:
                body = b"a\r\n" + body + b"\r\n0\r\n\r\n"
            await stream.send_all(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n" + (body[:-1] if cut else body))

    with trio.fail_after(60):
        for cut in (False, True):
            async with trio.open_nursery() as nursery:
                listen = partial(trio.serve_tcp, partial(serve, cut=cut), 0, host="127.0.0.1")
                port = (await nursery.start(listen))[0].socket.getsockname()[1]
                fetching = ManifestUrl(f"http://127.0.0.1:{port}/", {}, BYTES_MAX).fetch()
                if cut and has_length:
                    with pytest.raises(ConnectionError):
                        await fetching
                else:
                    body = ONE_DOCUMENT[:-1] if cut else ONE_DOCUMENT
                    assert ManifestAnswer(200, body, has_length) == await fetching
                nursery.cancel_scope.cancel()


async def test_an_answer_beyond_the_bound_is_an_error() -> None:
    async with http_server(200, b"x" * (BYTES_MAX + 1), []) as url:
        with trio.fail_after(60), pytest.raises(ConnectionError, match=f"larger than {BYTES_MAX} bytes"):
            await ManifestUrl(url, {}, BYTES_MAX).fetch()


async def test_unreachable_server_is_reported_with_its_plain_address() -> None:
    with port_of_nobody() as port, trio.fail_after(60), pytest.raises(ConnectionError) as told:
        await ManifestUrl(f"http://127.0.0.1:{port}/", {}, BYTES_MAX).fetch()
    assert f"the server cannot be reached: 127.0.0.1:{port}: Connection refused" == str(told.value)


def test_an_address_of_version_6_is_written_in_brackets() -> None:
    error = OSError(111, "Error connecting to ('::1', 80, 0, 0): Connection refused")
    assert "[::1]:80: Connection refused" == reason_of(error)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "nonsense", "http://127.0.0.1:99999999/"])
async def test_no_answer_at_all_is_an_error_of_the_operating_system_too(url: str) -> None:
    with trio.fail_after(60), pytest.raises(ConnectionError):
        await ManifestUrl(url, {}, BYTES_MAX).fetch()
