"""A collector of traces: a server of HTTP that takes OTLP and keeps what it was sent."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span


class Collector(ThreadingHTTPServer):
    """Owns what it was sent. ``held``: answers wait until it is set."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Taker)
        self.sent: list[ResourceSpans] = []
        self.held = threading.Event()
        self.held.set()

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    @property
    def spans(self) -> list[Span]:
        return [span for one in self.sent for scope in one.scope_spans for span in scope.spans]

    def under(self, name: str) -> set[str]:
        """The names of spans right below those of that name."""
        parents = {span.span_id for span in self.spans if span.name == name}
        return {span.name for span in self.spans if span.parent_span_id in parents}


class Taker(BaseHTTPRequestHandler):
    """Takes OTLP and nothing else."""

    server: Collector

    def do_POST(self) -> None:
        assert self.path == "/v1/traces"
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.held.wait(60)
        self.server.sent += ExportTraceServiceRequest.FromString(body).resource_spans
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def collecting() -> Iterator[Collector]:
    with Collector() as one:
        thread = threading.Thread(target=one.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield one
        finally:
            one.held.set()
            one.shutdown()
            thread.join()
