"""Traces for an OpenTelemetry collector, if the configuration has ``tracing``: spans of pod syncs, of relists, of calls
to the runtime, requests to the API server and answers of the node's API. They are sent as OTLP over HTTP; the span of a
request travels with it, as W3C's Trace Context.

    Spans ─► sampler ─► a queue (the oldest are dropped) ─► thread ─► collector
      └─ a request's headers ─► the server

OpenTelemetry is an extra (``otel`` in pyproject.toml), loaded only by ``open_tracing``: an agent without traces has
neither its code nor its thread. Its exporter blocks, so it has a thread; the event loop only ever puts a span into the
queue. An unavailable collector is logged once, and once more when it is back.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import trio

from trikubelet.app.release import VERSION
from trikubelet.kit.threads import ThreadPool
from trikubelet.model.errors import StartFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExportResult

    from trikubelet.model.kubelet_configuration import Tracing

log = logging.getLogger(__name__)

QUEUE_MAX: Final = 2048
BATCH_MAX: Final = 512
EVERY_SECONDS: Final = 5.0
EXPORT_SECONDS_MAX: Final = 10.0
FAREWELL_SECONDS_MAX: Final = 3.0
"""How long a shutdown waits for the last spans to be sent, in seconds."""
MISSING: Final = (
    "tracing: OpenTelemetry is not installed: pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http "
    "(for a deb, an rpm or the single file see docs/packages.md: Traces), or take tracing out of the configuration"
)
"""It names OpenTelemetry's own packages: ``trikubelet`` on the package index may be an unrelated project."""


class OpenTelemetry:
    """Owns the spans that were made and not sent yet (``kit.spans.Spans``)."""

    def __init__(self, provider: Any) -> None:
        from opentelemetry import trace  # noqa: PLC0415 - see above
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

        self._provider = provider
        self._tracer = provider.get_tracer("trikubelet")
        self._trace = trace
        self._context = TraceContextTextMapPropagator()

    @contextmanager
    def span(self, name: str, **attributes: str) -> Iterator[None]:
        """See ``Spans``."""
        dotted = {name.replace("_", "."): value for name, value in attributes.items()}
        with self._tracer.start_as_current_span(name, attributes=dotted):
            yield

    def call(self, path: str) -> Question:
        """See ``Spans``; so for all below."""
        service, _, method = path.strip("/").partition("/")
        return self._ask(f"{service}/{method}", {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method})

    def request(self, method: str, host: str, path: str) -> Question:
        about = {"http.request.method": method, "server.address": host, "url.path": path}
        return self._ask(f"HTTP {method}", about)

    @contextmanager
    def answer(self, method: str, route: str, headers: Mapping[str, str]) -> Iterator[None]:
        about = {"http.request.method": method, "http.route": route}
        within, kind = self._context.extract(headers), self._trace.SpanKind.SERVER
        with self._tracer.start_as_current_span(route, within, kind, about):
            yield

    def _ask(self, name: str, about: Mapping[str, str]) -> Question:
        span = self._tracer.start_span(name, kind=self._trace.SpanKind.CLIENT, attributes=about)
        headers: dict[str, str] = {}
        self._context.inject(headers, self._trace.set_span_in_context(span))
        return Question(span, headers, self._trace.Status(self._trace.StatusCode.ERROR))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Send until cancelled, and then the rest, for at most FAREWELL_SECONDS_MAX."""
        task_status.started()
        try:
            await trio.sleep_forever()
        finally:
            # Without a thread they are lost, which must not change how the agent ended.
            with trio.move_on_after(FAREWELL_SECONDS_MAX, shield=True), suppress(OSError):
                await ThreadPool("the last spans", 1).run(self._provider.shutdown)

    def __repr__(self) -> str:
        return f"<OpenTelemetry {self._provider!r}>"


class Question:
    """Holds the span of one outgoing request (``kit.spans.Asking``)."""

    def __init__(self, span: Any, headers: Mapping[str, str], error: Any) -> None:
        """``error``: the span's status after a failure."""
        self._span = span
        self._error = error
        self.headers = headers

    def end(self, *, failed: bool, status: str = "") -> None:
        """See ``Asking``."""
        if status.isdigit():
            self._span.set_attribute("http.response.status_code", int(status))
        if failed:
            self._span.set_status(self._error)
        self._span.end()


def open_tracing(tracing: Tracing, node_name: str) -> OpenTelemetry:
    """Start tracing. Raises StartFailed if OpenTelemetry is not installed."""
    try:
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - see above
        from opentelemetry.sdk.trace import SpanLimits, TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased  # noqa: PLC0415
    except ImportError as error:
        raise StartFailed(MISSING) from error
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(tracing.sampling_rate_per_million / 1_000_000)),
        resource=Resource.create({"service.name": "kubelet", "service.version": VERSION, "host.name": node_name}),
        span_limits=SpanLimits(max_attributes=32, max_events=32, max_links=8),
        shutdown_on_exit=False,  # an agent's shutdown must not wait for a collector
    )
    processor = BatchSpanProcessor(
        LoggedExporter(_exporter(tracing.endpoint), tracing.endpoint),
        max_queue_size=QUEUE_MAX,
        max_export_batch_size=BATCH_MAX,
        schedule_delay_millis=EVERY_SECONDS * 1000,
        export_timeout_millis=EXPORT_SECONDS_MAX * 1000,
    )
    provider.add_span_processor(processor)
    log.info("Traces: %d of a million go to %s", tracing.sampling_rate_per_million, tracing.endpoint)
    return OpenTelemetry(provider)


def _exporter(endpoint: str) -> Any:
    """Return the exporter. A host and port, as upstream has it, is used without TLS."""
    import requests  # noqa: PLC0415 - with the exporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415

    session = requests.Session()
    session.trust_env = False  # as for every other connection: proxies are configured, or there are none
    url = endpoint if "://" in endpoint else f"http://{endpoint}/v1/traces"
    return OTLPSpanExporter(endpoint=url, timeout=EXPORT_SECONDS_MAX, session=session)


class LoggedExporter:
    """Exports like ``exporter`` (OpenTelemetry's SpanExporter), but logs only when the collector goes and comes back,
    instead of a line for each batch. Owns its last state. Called in the exporting thread only."""

    def __init__(self, exporter: Any, endpoint: str) -> None:
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._exporter = exporter
        self._endpoint = endpoint
        self._fails = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send them; blocks."""
        result = self._exporter.export(spans)
        fails = result.name != "SUCCESS"
        if fails and not self._fails:
            why = "Traces are lost: the collector at %s does not accept them (it needs OTLP over HTTP, port 4318)"
            log.warning(why, self._endpoint)
        elif self._fails and not fails:
            log.info("The collector at %s accepts traces again", self._endpoint)
        self._fails = fails
        return result

    def shutdown(self) -> None:
        """Stop sending."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Return at once, because nothing is buffered here."""
        return bool(self._exporter.force_flush(timeout_millis))
