"""The local API over a real Unix socket, asked with the commands' own client."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import socket
import stat
from typing import TYPE_CHECKING, Never

import msgspec
import pytest
import trio

from shell.localkit import NOW, FakeAgent, FakeUse, FakeView, StoppedClock, event, no_streams, pod, served
from shell.portkit import full_queue
from trikubelet.cli import client
from trikubelet.cli.client import AgentClient, AgentObjects, AgentSilent, NoAgent, NotAllowed
from trikubelet.model.errors import StartFailed
from trikubelet.server import local_api
from trikubelet.server.local_api import serve_local_api
from trikubelet.server.local_socket import LOOK_SECONDS, LocalSocket
from trikubelet.server.node_view import ManifestFault, PodWork

if TYPE_CHECKING:
    from pathlib import Path

    from trio.testing import MockClock


async def test_pods_come_as_a_pod_list_with_their_statuses(tmp_path: Path) -> None:
    async with served(FakeView([pod()]), tmp_path) as agent:
        said = json.loads(await agent.get("/pods"))

    assert ("v1", "PodList") == (said["apiVersion"], said["kind"])
    assert ("web-n1", "Running") == (said["items"][0]["metadata"]["name"], said["items"][0]["status"]["phase"])


async def test_events_faults_and_work_are_reported(tmp_path: Path) -> None:
    view = FakeView([pod()], [event(pod(), "Started", "it did")])
    view.wrong = [ManifestFault("/m/web.yaml", "unknown field", 3, "spec.x", running=("default/web-n1",))]
    view.worked = [PodWork("uid-web-n1", "Syncing", 3, 1, "no network", 0.5)]
    async with served(view, tmp_path) as agent:
        events, faults, work = [json.loads(await agent.get(path)) for path in ("/events", "/faults", "/work")]
        assert b"ok\n" == await agent.get("/healthz")

    assert "Started" == events["items"][0]["reason"]
    assert {
        "source": "/m/web.yaml",
        "line": 3,
        "path": "spec.x",
        "problem": "unknown field",
        "running": ["default/web-n1"],
    } == faults["faults"][0]
    assert ("no network", 0.5) == (work["pods"][0]["lastError"], work["pods"][0]["busySeconds"])


async def test_the_node_says_how_it_is(tmp_path: Path) -> None:
    async with served(FakeView(problems=("no network",)), tmp_path) as agent:
        assert {"name": "n1", "problems": ["no network"]} == json.loads(await agent.get("/node"))


async def test_a_watch_tells_what_is_there_and_then_only_what_changes(tmp_path: Path, autojump_clock) -> None:
    view = FakeView([pod("a"), pod("b")])
    async with served(view, tmp_path) as agent, agent.stream("/pods", {"watch": "1"}) as parts:

        async def changes() -> list[tuple[str, str]]:
            lines = (await anext(parts)).splitlines()
            return [(c["type"], c["object"]["metadata"]["name"]) for c in map(json.loads, lines)]

        assert [("ADDED", "a"), ("ADDED", "b")] == await changes()
        await trio.sleep(10)
        view.shown = [msgspec.structs.replace(pod("b"), kind="Changed"), pod("c")]
        assert [("DELETED", "a"), ("MODIFIED", "b"), ("ADDED", "c")] == await changes()
        view.shown = [*view.shown, pod("d")]
        assert [("ADDED", "d")] == await changes()


async def test_a_log_is_read_with_all_that_was_asked(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_text(
        "2026-11-21T11:58:00Z stdout F one\n2026-11-21T11:59:50Z stdout F two\n2026-11-21T11:59:51Z stderr F three\n"
    )
    view = FakeView([pod()], logs={("default", "web-n1", "app", False): str(log)})

    async with served(view, tmp_path) as agent:

        async def read(**query: str) -> bytes:
            return await agent.get("/logs/default/web-n1/app", query)

        assert b"one\ntwo\nthree\n" == await read()
        assert b"three\n" == await read(tailLines="1")
        assert b"two\nthree\n" == await read(sinceSeconds="60")
        assert b"two\nthree\n" == await read(sinceTime="2026-11-21T11:59:00Z")
        assert b"one\nt" == await read(limitBytes="5")
        assert b"three\n" == await read(stream="stderr")
        assert b"2026-11-21T11:59:51Z three\n" == await read(timestamps="true", tailLines="1")
        with pytest.raises(AgentObjects, match="app has no log"):
            await read(previous="true")


@pytest.mark.parametrize("query", [{}, {"follow": "true"}])
async def test_a_log_that_is_no_file_is_said_to_be_none(
    query: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As an answer, which an answer that had begun could only break off; and to the client, who has the log of it."""
    os.mkfifo(path := tmp_path / "0.log")
    view = FakeView([pod()], logs={("default", "web-n1", "app", False): str(path)})

    async with served(view, tmp_path) as agent:
        with pytest.raises(AgentObjects) as caught:
            await agent.get("/logs/default/web-n1/app", query)

    assert f'cannot read the log of container "app" at {path}: not a regular file' == str(caught.value)
    assert [] == [record for record in caplog.records if record.levelname == "ERROR"]


async def test_log_without_a_file_is_empty(tmp_path: Path) -> None:
    view = FakeView([pod()], logs={("default", "web-n1", "app", False): str(tmp_path / "0.log")})

    async with served(view, tmp_path) as agent:
        assert b"" == await agent.get("/logs/default/web-n1/app")


async def test_a_followed_log_goes_on_until_the_container_is_over(tmp_path: Path, autojump_clock) -> None:
    log = tmp_path / "0.log"
    log.write_text(f"{NOW} stdout F one\n")
    view = FakeView([pod()], logs={("default", "web-n1", "app", False): str(log)}, over=False)
    log_path = "/logs/default/web-n1/app"
    async with served(view, tmp_path) as agent, agent.stream(log_path, {"follow": "true"}) as parts:
        assert b"one\n" == await anext(parts)
        await trio.sleep(100)
        with log.open("a") as file:
            file.write(f"{NOW} stdout F two\n")
        assert b"two\n" == await anext(parts)
        view.over = True
        assert [] == [part async for part in parts]


def test_the_table_in_front_of_the_module_has_every_route_and_its_method() -> None:
    api = local_api.LocalApi(FakeView(), FakeAgent(), no_streams(), FakeUse(), StoppedClock())
    told = re.findall(r"^    (GET|POST) ([^ \[]+)", local_api.__doc__ or "", re.MULTILINE)

    routes = {(method, re.sub(r"[{}]", "", path)) for path, (method, _) in api._routes.items()}
    assert routes == {(method, re.sub("[A-Z]{2,}", lambda word: word[0].lower(), path)) for method, path in told}


@pytest.mark.parametrize(
    ("status", "said", "path", "query"),
    [
        (404, "unknown path /nonsense; paths: /healthz, /pods", "/nonsense", {}),
        (404, "/stats/summary, /metrics, /metrics/probes, /logs/{namespace}/{pod}/{container}", "/logs/web-n1", {}),
        (405, "/restart/{namespace}/{pod} allows only POST", "/restart/default/web-n1", {}),
        (404, "no nobody", "/logs/default/nobody/app", {}),
        (400, "app has no log", "/logs/default/web-n1/app", {}),
        (
            422,
            "`tailLines` and specific `stream` are mutually exclusive for now",
            "/logs/default/web-n1/app",
            {"tailLines": "1", "stream": "stdout"},
        ),
        (422, "tailLines=-1: write a whole number, 0 or more", "/logs/default/web-n1/app", {"tailLines": "-1"}),
        (422, "sinceSeconds=0: write", "/logs/default/web-n1/app", {"sinceSeconds": "0"}),
        (400, "limitBytes=9", "/logs/default/web-n1/app", {"limitBytes": "9" * 30}),
        (400, "sinceTime=noon: write a time such as", "/logs/default/web-n1/app", {"sinceTime": "noon"}),
        (422, "give one of them", "/logs/default/web-n1/app", {"sinceTime": NOW, "sinceSeconds": "1"}),
        (400, "follow=perhaps: write true or false", "/logs/default/web-n1/app", {"follow": "perhaps"}),
        (422, "stream=both: write stdout, stderr or all", "/logs/default/web-n1/app", {"stream": "both"}),
    ],
)
async def test_what_is_wrong_with_a_request_is_said(
    tmp_path: Path, status: int, said: str, path: str, query: dict[str, str]
) -> None:
    async with served(FakeView([pod()]), tmp_path) as agent:
        with pytest.raises(AgentObjects) as caught:
            await agent.get(path, query)

    assert status == caught.value.status
    assert str(caught.value).startswith(said) or said in str(caught.value)


async def test_nothing_can_be_changed(tmp_path: Path) -> None:
    async with served(FakeView(), tmp_path) as agent, await trio.open_unix_socket(agent.socket_path) as stream:
        await stream.send_all(b"DELETE /pods HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        said = b"".join([bytes(part) async for part in stream])

    assert said.startswith(b"HTTP/1.1 405 ")
    assert b"\r\nallow: GET, HEAD\r\n" in said


async def test_only_the_owner_may_open_the_socket_and_it_goes_with_the_agent(tmp_path: Path) -> None:
    async with served(FakeView(), tmp_path) as agent:
        assert 0o600 == stat.S_IMODE(os.stat(agent.socket_path).st_mode)

    assert [] == os.listdir(tmp_path)
    with pytest.raises(NoAgent, match=r"^no trikubelet answers at .*: is the agent running\?"):
        await agent.get("/pods")


async def test_a_socket_left_by_an_earlier_life_is_replaced(tmp_path: Path) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "trikubelet.sock"))
    left.close()

    async with served(FakeView(), tmp_path) as agent:
        assert b"ok\n" == await agent.get("/healthz")


async def test_removed_socket_is_bound_again_and_connections_stay(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    view = FakeView([pod("a")])
    async with served(view, tmp_path / "run") as agent, agent.stream("/pods", {"watch": "1"}) as parts:
        await anext(parts)
        for _ in range(2):
            shutil.rmtree(tmp_path / "run")
            await trio.sleep(LOOK_SECONDS + 1)
            assert b"ok\n" == await agent.get("/healthz")
            assert 0o600 == stat.S_IMODE(os.stat(agent.socket_path).st_mode)
        view.shown = [pod("b")]
        assert b"DELETED" in await anext(parts)

    assert [] == os.listdir(tmp_path / "run")
    assert 2 == caplog.text.count("trikubelet.sock was missing; it is back now")


async def test_what_another_process_has_put_in_the_sockets_place_stays_until_that_removes_it(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(FakeView(), tmp_path) as agent:
        with socket.socket(socket.AF_UNIX) as other:
            os.unlink(agent.socket_path)
            other.bind(agent.socket_path)
            theirs = os.stat(agent.socket_path).st_ino
            await trio.sleep(10 * LOOK_SECONDS)
            assert theirs == os.stat(agent.socket_path).st_ino
            assert 1 == caplog.text.count(
                "is missing, so the command line cannot reach the agent: another file is at its place"
            )
        os.unlink(agent.socket_path)
        await trio.sleep(LOOK_SECONDS + 1)
        assert b"ok\n" == await agent.get("/healthz")
        os.rename(agent.socket_path, tmp_path / "ours")
        (tmp_path / "trikubelet.sock").touch()

    assert ["ours", "trikubelet.sock"] == sorted(os.listdir(tmp_path))


async def test_socket_with_an_unknown_file_is_bound_again_when_removed(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(_path: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "lstat", unknown)
        bound = LocalSocket(str(tmp_path / "s"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bound.keep)
        await trio.sleep(LOOK_SECONDS + 1)
        os.unlink(tmp_path / "s")
        await trio.sleep(LOOK_SECONDS + 1)
        assert stat.S_ISSOCK(os.stat(tmp_path / "s").st_mode)
        nursery.cancel_scope.cancel()
    await bound.aclose()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
async def test_an_agent_on_a_full_disk_starts_without_a_socket_and_has_one_once_there_is_room(
    number: int,
    tmp_path: Path,
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def full(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(socket.socket, "bind", full)
        async with served(FakeView(), tmp_path) as agent:
            await trio.sleep(10 * LOOK_SECONDS)
            assert 1 == caplog.text.count(
                f"is missing, so the command line cannot reach the agent: {os.strerror(number)}"
            )
            patched.undo()
            await trio.sleep(LOOK_SECONDS + 1)
            assert b"ok\n" == await agent.get("/healthz")


async def test_an_agent_that_ends_on_a_full_disk_had_no_socket_to_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(socket.socket, "bind", full)
        bound = LocalSocket(str(tmp_path / "s"))

    await bound.aclose()
    bound.remove()
    assert [] == os.listdir(tmp_path)


async def test_a_path_is_as_long_as_its_bytes_and_need_not_be_text(tmp_path: Path) -> None:
    place = tmp_path / "\udcff"
    async with served(FakeView(), place) as agent:
        assert b"ok\n" == await agent.get("/healthz")
    with pytest.raises(StartFailed, match="is too long for the path of a socket"):
        LocalSocket("/" + "\udcff" * 107)


async def test_a_socket_that_cannot_be_made_again_is_reported_once_and_tried_on(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(FakeView(), tmp_path / "run") as agent:
        shutil.rmtree(tmp_path / "run")
        (tmp_path / "run").touch()
        await trio.sleep(10 * LOOK_SECONDS)
        assert 1 == caplog.text.count("is missing, so the command line cannot reach the agent: File exists")
        (tmp_path / "run").unlink()
        await trio.sleep(LOOK_SECONDS + 1)
        assert b"ok\n" == await agent.get("/healthz")


@pytest.mark.parametrize(
    ("why", "place"),
    [
        ("is too long for the path of a socket", "x" * 200),
        ("exists and is not a socket", "file"),
        ("cannot make a socket", "file/x"),
    ],
)
async def test_a_place_that_cannot_have_a_socket_is_refused_with_the_reason(
    tmp_path: Path, why: str, place: str
) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StartFailed, match=why):
        await serve_local_api(FakeView(), FakeAgent(), no_streams(), FakeUse(), StoppedClock(), str(tmp_path / place))


async def test_error_names_the_user_that_may_connect(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def refused(_path: str) -> Never:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(client, "connect", refused)
    monkeypatch.setattr(os, "stat", lambda _path: os.stat_result((0,) * 10))

    with pytest.raises(NotAllowed, match=r"only root may connect to the trikubelet at /x: use sudo"):
        await AgentClient("/x").get("/pods")


@pytest.mark.parametrize(("seconds", "path"), [(10, "/pods"), (10, "/node"), (30, "/nodes"), (30, "/logs/a/b/c")])
async def test_an_agent_that_takes_the_connection_and_says_nothing_is_named_soon_unless_it_may_have_to_ask(
    tmp_path: Path, autojump_clock, seconds: int, path: str
) -> None:
    place = tmp_path / "mute.sock"
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(place))
        mute.listen()
        said = rf"the agent \(process {os.getpid()}\) at {place} does not answer: {seconds} seconds of silence"
        with pytest.raises(AgentSilent, match=said):
            await AgentClient(str(place)).get(path)
    assert seconds == pytest.approx(trio.current_time())


async def test_an_agent_that_accepts_no_connection_is_not_said_to_be_missing(tmp_path: Path) -> None:
    place = tmp_path / "full.sock"
    said = f"the agent at {place} does not answer: its queue is full: it does not accept connections"
    with full_queue(place), pytest.raises(AgentSilent, match=said):
        await AgentClient(str(place)).get("/pods")
