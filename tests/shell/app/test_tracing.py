"""Traces where OpenTelemetry is not: what is traced is said to a double, and nothing is loaded unasked.

What a collector gets is in ``tests/otel``.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest
import trio

from shell.cri.grpckit import EVENTS, VERSION, FakeRuntime, memory_pair
from shell.kube.apikit import access_to, asking, serving
from shell.nodeapikit import Bench as NodeApiBench
from shell.nodeapikit import rules
from shell.pods.shellkit import Bench, phase, until
from trikubelet.app.node import run_node
from trikubelet.app.tracing import LoggedExporter, open_tracing
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.httpd.messages import Request, Response, json
from trikubelet.kube.figures import FAILED
from trikubelet.model.api import NODES
from trikubelet.model.api_errors import ApiLost, ObjectMissing
from trikubelet.model.errors import StartFailed
from trikubelet.model.kubelet_configuration import Tracing
from trikubelet.model.runtime_errors import RuntimeCallError
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import pod

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from trio.testing import MockClock

OPEN: ContextVar[str] = ContextVar("OPEN", default="")


HEADERS: Final = {"traceparent": "00-11-22-01", "tracestate": "a=" + "b" * 300}


class Noted:
    """Spans that are only noted: each with the one it was within, and questions with how they ended."""

    def __init__(self) -> None:
        self.made: list[tuple[str, str]] = []
        self.ended: list[tuple[str, str, str]] = []

    @contextmanager
    def span(self, name: str, **_: str) -> Iterator[None]:
        self.made.append((OPEN.get(), name))
        token = OPEN.set(name)
        try:
            yield
        finally:
            OPEN.reset(token)

    def call(self, path: str) -> NotedAsking:
        return NotedAsking(self, OPEN.get(), path.rpartition("/")[2])

    def request(self, method: str, host: str, path: str) -> NotedAsking:
        return NotedAsking(self, OPEN.get(), f"{method} {path}")

    @contextmanager
    def answer(self, method: str, route: str, headers: Mapping[str, str]) -> Iterator[None]:
        self.made.append((headers.get("traceparent", ""), f"{method} {route}"))
        yield


class NotedAsking:
    def __init__(self, noted: Noted, within: str, what: str) -> None:
        self._noted, self._asked = noted, (within, what)
        self.headers = HEADERS

    def end(self, *, failed: bool, status: str = "") -> None:
        self._noted.ended.append((*self._asked, f"{status} failed".strip() if failed else status))


class Listening(FakeRuntime):
    """Owns what was sent beside the requests."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[dict[str, str]] = []

    async def Version(self, stream: Any) -> None:
        self.sent.append(stream.metadata)
        await super().Version(stream)

    async def GetContainerEvents(self, stream: Any) -> None:
        self.sent.append(stream.metadata)
        await super().GetContainerEvents(stream)


async def test_each_sync_each_image_and_each_list_has_a_span(autojump_clock: MockClock) -> None:
    spans = Noted()
    node = Bench().build_node(spans=spans)
    async with trio.open_nursery() as nursery:
        await nursery.start(run_node, node)
        node.slots["file"].put(Snapshot((pod("web", grace=1),)))
        await until(lambda: phase(node, "uid-web") == "Running")
        node.slots["file"].put(Snapshot())
        await until(lambda: "uid-web" not in node.workers)
        nursery.cancel_scope.cancel()

    assert {
        ("", "PLEG/Relist"),
        ("", "syncPod"),
        ("syncPod", "Images/EnsureImageExists"),
        ("", "syncTerminatingPod"),
        ("", "syncTerminatedPod"),
    } == set(spans.made)


async def test_a_call_has_a_span_within_the_one_that_is_open_and_tells_the_runtime_of_it(
    autojump_clock: MockClock,
) -> None:
    spans, runtime = Noted(), Listening()
    async with memory_pair(runtime) as channel:
        await channel.unary_raw(VERSION, pb.VersionRequest())
        assert HEADERS.keys().isdisjoint(runtime.sent.pop())
    async with memory_pair(runtime, spans=spans) as channel:
        with spans.span("open"):
            await channel.unary_raw(VERSION, pb.VersionRequest())
            with pytest.raises(RuntimeCallError):
                await channel.unary_raw(VERSION, pb.VersionRequest(version="bug"))
        with trio.move_on_after(1):
            await channel.unary_raw(VERSION, pb.VersionRequest(version="wait"))
        async with channel.stream_raw(EVENTS, pb.GetEventsRequest()) as events:
            assert await anext(events)
            assert 3 == len(spans.ended), "a stream lasts until it is left"

    assert [HEADERS] * 4 == [{name: sent[name] for name in HEADERS} for sent in runtime.sent]
    assert [
        ("open", "Version", ""),
        ("open", "Version", "failed"),
        ("", "Version", "failed"),
        ("", "GetContainerEvents", "failed"),
    ] == spans.ended


async def test_a_request_to_the_api_server_has_a_span_and_tells_of_it() -> None:
    async def answer(request: Request) -> Response:
        if request.path.endswith("absent"):
            return json({"kind": "Status", "reason": "NotFound", "code": 404}, 404)
        return json({"metadata": {"name": "w"}})

    spans = Noted()
    async with serving(None, answer) as server, asking(access_to(server.url), spans=spans) as client:
        with spans.span("open"):
            await client.get(NODES, "w")
        with pytest.raises(ObjectMissing):
            await client.get(NODES, "absent")
        server.attend = trio.aclose_forcefully
        client.reset()
        with pytest.raises(ApiLost):
            await client.get(NODES, "w")

    assert [HEADERS] * 2 == [{name: asked.headers[name] for name in HEADERS} for asked in server.requests]
    assert [
        ("open", "GET /api/v1/nodes/w", "200"),
        ("", "GET /api/v1/nodes/absent", "404 failed"),
        ("", "GET /api/v1/nodes/w", f"{FAILED} failed"),
    ] == spans.ended


async def test_only_authorized_requests_make_spans(tmp_path: Path) -> None:
    bench = NodeApiBench(tmp_path)
    bench.spans = spans = Noted()
    async with bench.serving(rules("AlwaysAllow")), bench.client() as stranger, bench.client(user="ann") as ann:
        assert 401 == (await stranger.get("/pods", headers=HEADERS)).status_code
        assert 200 == (await ann.get("/pods", headers=HEADERS)).status_code
        assert 404 == (await ann.get("/nothing", headers=HEADERS)).status_code
        assert 400 == (await ann.post("/exec/default/web-n1/app")).status_code

    assert [(HEADERS["traceparent"], "GET /pods"), ("", "POST /exec/{namespace}/{pod}/{container}")] == spans.made


def test_an_agent_that_is_asked_for_traces_and_cannot_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(StartFailed, match=r"pip install opentelemetry-sdk \S+-otlp-proto-http \(for a deb"):
        open_tracing(Tracing(), "n")


def test_a_collector_is_told_of_when_it_goes_and_when_it_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    answers = iter(["SUCCESS", "FAILURE", "FAILURE", "SUCCESS", "SUCCESS", "FAILURE"])
    exporter = SimpleNamespace(export=lambda _: SimpleNamespace(name=next(answers)))
    told = LoggedExporter(exporter, "c:4318")
    with caplog.at_level("INFO"):
        for _ in range(6):
            told.export(())

    lost = "Traces are lost: the collector at c:4318 does not accept them (it needs OTLP over HTTP, port 4318)"
    assert [lost, "The collector at c:4318 accepts traces again", lost] == caplog.messages


def test_an_agent_without_traces_loads_nothing_of_them() -> None:
    code = "import sys, trikubelet.app.compose as _; print([name for name in sys.modules if 'telemetry' in name])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]" == said.stdout.strip()
