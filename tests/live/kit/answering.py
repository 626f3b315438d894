"""A web server of the test's own on the machine's loopback, which says yes to everybody and remembers who asked.

What a probe or a hook was told to ask (a host, a path, headers, a scheme) is read where it arrives. Called by the tests
of both; the server is in the test's process, and gone when it is left.
"""

from __future__ import annotations

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from email.message import Message
    from pathlib import Path

from .certificates import Authority

HOST = "127.0.0.1"


class Answering:
    """Owns a server's port and its thread; a context manager. With a ``directory``, where its key may go, it speaks
    TLS, with a certificate nobody has reason to believe."""

    def __init__(self, directory: Path | None = None) -> None:
        self._asked: list[tuple[str, Message]] = []
        asked = self._asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append((self.path, self.headers))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nothing: what was asked is remembered."""

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._server.daemon_threads = True
        if directory is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            own = Authority(directory).issue("answering", "answering", names=(HOST,))
            context.load_cert_chain(own.certificate, own.key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="answering")

    def asked(self, path: str, header: str) -> list[str]:
        """The header's value in each request for the path so far, empty where it was not said."""
        return [headers.get(header, "") for asked, headers in tuple(self._asked) if asked == path]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
