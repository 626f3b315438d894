"""Traces as a collector gets them. ``make test-otel`` runs this, with the extra installed beside the rest."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio

from otel.collectorkit import Collector, collecting
from shell.cri.grpckit import VERSION, FakeRuntime, memory_pair
from shell.kube.apikit import access_to, asking, serving
from shell.pods.shellkit import Bench, phase, until
from trikubelet.app import tracing
from trikubelet.app.node import run_node
from trikubelet.app.tracing import BATCH_MAX, OpenTelemetry, open_tracing
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.httpd.messages import Request, Response, json
from trikubelet.model.api import NODES
from trikubelet.model.kubelet_configuration import Tracing
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import pod

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within


ALL = 1_000_000


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as one:
        yield one


@asynccontextmanager
async def traced(endpoint: str, per_million: int = ALL) -> AsyncIterator[OpenTelemetry]:
    """Traces for the length of the block, at whose end all are sent."""
    traces = open_tracing(Tracing(endpoint=endpoint, sampling_rate_per_million=per_million), "n")
    async with trio.open_nursery() as nursery:
        await nursery.start(traces.run)
        yield traces
        nursery.cancel_scope.cancel()


async def live_and_end(traces: OpenTelemetry) -> None:
    """A pod comes to a node, runs, and goes."""
    bench = Bench()
    node = bench.build_node(spans=traces)
    async with trio.open_nursery() as nursery:
        await nursery.start(run_node, node)
        node.slots["file"].put(Snapshot((pod("web", grace=1),)))
        await until(lambda: phase(node, "uid-web") == "Running")
        node.slots["file"].put(Snapshot())
        await until(lambda: "uid-web" not in node.workers)
        nursery.cancel_scope.cancel()


async def test_a_pods_life_and_the_lists_are_reported_under_upstreams_names(collector: Collector) -> None:
    async with traced(collector.endpoint) as traces:
        await live_and_end(traces)

    names = {span.name for span in collector.spans}
    assert {"syncPod", "syncTerminatingPod", "syncTerminatedPod", "PLEG/Relist"} <= names
    assert {"Images/EnsureImageExists"} == collector.under("syncPod")
    about = {
        one.key: one.value.string_value for span in collector.spans if span.name == "syncPod" for one in span.attributes
    }
    assert ("uid-web", "web") == (about["k8s.pod.uid"], about["k8s.pod.name"])
    (who,) = {
        one.value.string_value for sent in collector.sent for one in sent.resource.attributes if one.key == "host.name"
    }
    assert "n" == who


async def test_a_call_is_within_the_span_of_the_task_that_asked_and_of_those_it_started(collector: Collector) -> None:
    async with traced(collector.endpoint) as traces:

        async def ask() -> None:
            await trio.lowlevel.checkpoint()
            asked = traces.call(VERSION)
            await trio.sleep(0.01)
            asked.end(failed=True)

        async with trio.open_nursery() as nursery:
            with traces.span("one"):
                nursery.start_soon(ask)
            with traces.span("other"):
                nursery.start_soon(trio.lowlevel.checkpoint)

    assert {"runtime.v1.RuntimeService/Version"} == collector.under("one")
    assert set() == collector.under("other")
    (call,) = [span for span in collector.spans if span.name == "runtime.v1.RuntimeService/Version"]
    assert call.end_time_unix_nano > call.start_time_unix_nano
    assert 2 == call.status.code


class Listening(FakeRuntime):
    """Owns the trace's context that came with each question."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[str] = []

    async def Version(self, stream: Any) -> None:
        self.sent.append(stream.metadata["traceparent"])
        await super().Version(stream)


async def test_the_runtime_and_the_api_server_are_told_within_what_they_are_asked(collector: Collector) -> None:
    async def answer(_: Request) -> Response:
        return json({"metadata": {"name": "w"}})

    runtime = Listening()
    async with (
        traced(collector.endpoint) as traces,
        memory_pair(runtime, spans=traces) as channel,
        serving(None, answer) as server,
        asking(access_to(server.url), spans=traces) as client,
    ):
        with traces.span("one"):
            await channel.unary_raw(VERSION, pb.VersionRequest())
            await client.get(NODES, "w")

    (one,) = [span for span in collector.spans if span.name == "one"]
    asked = {span.name: span for span in collector.spans if span.parent_span_id == one.span_id}
    for name, told in (
        ("runtime.v1.RuntimeService/Version", runtime.sent),
        ("HTTP GET", [server.requests[0].headers["traceparent"]]),
    ):
        (said,) = told
        *context, flags = said.split("-")
        assert ["00", one.trace_id.hex(), asked[name].span_id.hex()] == context
        assert int(flags, 16) & 1, "it is sampled"
    about = {one.key: one.value for one in asked["HTTP GET"].attributes}
    assert ("/api/v1/nodes/w", 200) == (about["url.path"].string_value, about["http.response.status_code"].int_value)


async def test_an_answer_is_within_the_span_its_client_names_and_sampled_as_that_is(collector: Collector) -> None:
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    async with traced(collector.endpoint, per_million=0) as traces:
        for sampled in ("00", "01"):
            headers = {"traceparent": f"00-{trace}-{parent}-{sampled}"}
            with traces.answer("GET", "/pods", headers), traces.span("looks"):
                await trio.lowlevel.checkpoint()
        with traces.answer("GET", "/pods", {"traceparent": "rubbish"}):
            await trio.lowlevel.checkpoint()

    (answered,) = [span for span in collector.spans if span.name == "/pods"]
    assert parent == answered.parent_span_id.hex()
    assert {trace} == {span.trace_id.hex() for span in collector.spans}
    assert {"looks"} == collector.under("/pods")


async def test_an_error_is_its_spans(collector: Collector) -> None:
    async with traced(collector.endpoint) as traces:
        with pytest.raises(ValueError, match="bad"), traces.span("fails"):
            raise ValueError("bad")

    assert [2] == [span.status.code for span in collector.spans]


@pytest.mark.parametrize(("per_million", "sent"), [(ALL, 50), (0, 0)])
async def test_so_many_of_a_million_are_sent(per_million: int, sent: int, collector: Collector) -> None:
    async with traced(collector.endpoint, per_million) as traces:
        for _ in range(50):
            with traces.span("one"):
                pass

    assert sent == len(collector.spans)


async def test_hanging_collector_blocks_nothing_and_only_the_newest_spans_are_queued(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "QUEUE_MAX", BATCH_MAX + 100)
    spans = 3 * tracing.QUEUE_MAX
    collector.held.clear()
    async with traced(collector.endpoint) as traces:
        for number in range(spans):
            with traces.span(str(number)):
                await trio.lowlevel.checkpoint()
        collector.held.set()

    came = {int(span.name) for span in collector.spans}
    newest = set(range(spans - tracing.QUEUE_MAX, spans))
    assert newest <= came
    assert BATCH_MAX >= len(came - newest), "those of the one batch that was under way"
