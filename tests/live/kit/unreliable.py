"""A door to the API server that does not always open: what a node asks through it fails, or hangs, by chance.

    agent ─TLS─► a request drawn to fail: 500, 503, 429 ─► the agent, at once
                 a request drawn to hang: nothing, for as long as the agent waits
                 any other ─TLS, as the node─► API server ─► the agent, as it comes

Called by the live tests. The door speaks to the API server with the node's own certificate, so that it is still the
node that asks. What goes wrong is drawn from a seed, in the order in which requests come. Each connection of the
agent's has a thread here, and one of its own to the API server.
"""

from __future__ import annotations

import http.client
import json
import random
import ssl
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

import yaml

from .kubectl import write_kubeconfig

if TYPE_CHECKING:
    from .control_plane import ControlPlane

HANGS_SECONDS_MAX = 120.0
FAILURES = (
    (http.HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError"),
    (http.HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable"),
    (http.HTTPStatus.TOO_MANY_REQUESTS, "TooManyRequests"),
)
_HOP = frozenset({"connection", "transfer-encoding", "host", "content-length"})


class UnreliableDoor:
    """Owns the door of one node, its certificate, and what it did: ``done`` counts requests by "failed", "hung" and
    "passed". Use as a context manager."""

    def __init__(self, plane: ControlPlane, node: str, *, fails: float, hangs: float, seed: int) -> None:
        """``fails`` and ``hangs`` are shares of all requests."""
        self.done: Counter[str] = Counter()
        self._fails, self._hangs = fails, hangs
        self._chance = random.Random(seed)
        self._drawing = threading.Lock()
        self.closing = threading.Event()
        self._target = urlsplit(plane.url)
        user = yaml.safe_load(plane.node_kubeconfig(node).read_text())["users"][0]["user"]
        self._trust = ssl.create_default_context(cafile=plane.authority.certificate)
        self._trust.load_cert_chain(user["client-certificate"], user["client-key"])
        self._server = _Server((str(self._target.hostname), 0), _Handler)
        self._server.door = self
        own = plane.issue_serving(f"door-{node}")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(own.certificate, own.key)
        self._server.context = context
        url = f"https://{self._target.hostname}:{self._server.server_port}"
        self.kubeconfig = write_kubeconfig(
            plane.directory / f"door-{node}.kubeconfig", url, plane.authority.certificate, "not-asked-for"
        )
        self._thread = threading.Thread(target=self._server.serve_forever, name="door", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def draw(self) -> str:
        """What becomes of the next request."""
        with self._drawing:
            drawn = self._chance.random()
            fate = "failed" if drawn < self._fails else "hung" if drawn < self._fails + self._hangs else "passed"
            self.done[fate] += 1
            return fate

    def draw_failure(self) -> tuple[http.HTTPStatus, str]:
        """How the next that fails does."""
        with self._drawing:
            return self._chance.choice(FAILURES)

    def connect(self) -> http.client.HTTPSConnection:
        """To the API server, as the node."""
        return http.client.HTTPSConnection(
            str(self._target.hostname), self._target.port, timeout=700, context=self._trust
        )


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    door: UnreliableDoor
    context: ssl.SSLContext

    def finish_request(self, request: object, client_address: object) -> None:
        """In the connection's own thread: a client that is slow with TLS holds up itself."""
        try:
            secure = self.context.wrap_socket(request, server_side=True)  # type: ignore[arg-type] # typeshed: Any socket
            _Handler(secure, client_address, self)
        except OSError:
            pass  # the agent hung up


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        self._upstream: http.client.HTTPSConnection | None = None

    def finish(self) -> None:
        if self._upstream is not None:
            self._upstream.close()
        super().finish()
        self.connection.close()

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fate = self.server.door.draw()
        if fate == "failed":
            self._fail()
        elif fate == "hung":
            self.server.door.closing.wait(HANGS_SECONDS_MAX)
            self.close_connection = True
        else:
            self._pass_on(body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - the base class looks for them

    def _fail(self) -> None:
        code, reason = self.server.door.draw_failure()
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
        said = json.dumps(status | {"message": "drawn by chance"}).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        if code != http.HTTPStatus.INTERNAL_SERVER_ERROR:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(said)

    def _pass_on(self, body: bytes) -> None:
        if self._upstream is None:
            self._upstream = self.server.door.connect()
        headers = {name: value for name, value in self.headers.items() if name.lower() not in (*_HOP, "authorization")}
        self._upstream.request(self.command, self.path, body or None, headers)
        reply = self._upstream.getresponse()
        self.send_response(reply.status)
        for name, value in reply.getheaders():
            if name.lower() not in _HOP:
                self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while piece := reply.read1(65536):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        reply.close()  # http.client does not see for itself that one of a known length has ended
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: ``done`` counts."""
