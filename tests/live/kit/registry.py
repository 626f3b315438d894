"""An image registry on loopback, so that pulls can be tested for real where no registry can be reached.

Started by the ``registry`` fixture and made known to a containerd by `Containerd.trust`. It serves, read only, the
images of one archive: to tests of pulls the one that is not imported beforehand, ``images.PULLED``. It can ask for a
password, refuse a number of requests, hang, and it remembers what it was asked, so that a test can count the pulls.
"""

from __future__ import annotations

import base64
import json
import sys
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

from . import images

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType


HANG_SECONDS_MAX = 240.0


class Registry:
    """Owns a listening registry, from entry to exit. ``login`` is the user and password it asks for, if any;
    ``refusals`` is how many of the next requests get a 503; while ``answering`` is cleared none is answered. A test may
    set them at any time.
    """

    def __init__(self, archive: Path) -> None:
        self.login: tuple[str, str] | None = None
        self.refusals = 0
        self.asked: list[str] = []
        self.answering = threading.Event()
        self.answering.set()
        self._archive = archive
        self._turn = threading.Lock()
        self._manifests: dict[tuple[str, str], dict[str, Any]] = {}
        for manifest in json.loads(self._read("index.json"))["manifests"]:
            name, _, tag = manifest["annotations"]["io.containerd.image.name"].rpartition(":")
            repository = name.partition("/")[2]
            self._manifests[repository, tag] = self._manifests[repository, manifest["digest"]] = manifest

    def __enter__(self) -> Self:
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="registry")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.answering.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def address(self) -> str:
        """Host and port; it speaks plain HTTP."""
        return f"127.0.0.1:{self._server.server_port}"

    @property
    def image(self) -> str:
        """The name `images.PULLED` can be pulled by; it changes with the port, so no two tests share it."""
        return images.PULLED.replace(images.REGISTRY, self.address)

    @property
    def pulls(self) -> int:
        """How many times a runtime asked, and was told, what the tag of `image` stands for: once per pull."""
        return sum(line.startswith("200 HEAD") and "/manifests/1" in line for line in tuple(self.asked))

    def answer(self, method: str, path: str, authorization: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body for one request, which is noted in ``asked``. Called by the server's threads."""
        self.answering.wait(HANG_SECONDS_MAX)
        with self._turn:
            status, headers, body = self._decide(path, authorization)
            self.asked.append(f"{status} {method} {path}")
            return status, headers, body

    def _decide(self, path: str, authorization: str) -> tuple[int, dict[str, str], bytes]:
        if self.refusals > 0:
            self.refusals -= 1
            return 503, {}, b"not now\n"
        if self.login and authorization != f"Basic {base64.b64encode(':'.join(self.login).encode()).decode()}":
            return 401, {"WWW-Authenticate": 'Basic realm="live"'}, b"who are you?\n"
        match path.split("?", maxsplit=1)[0].strip("/").split("/"):
            case ["v2"]:
                return 200, {}, b"{}"
            case ["v2", *path, "manifests", reference] if ("/".join(path), reference) in self._manifests:
                manifest = self._manifests["/".join(path), reference]
                return 200, *self._blob(manifest["digest"], manifest["mediaType"])
            case ["v2", *_, "blobs", digest]:
                return 200, *self._blob(digest, "application/octet-stream")
        return 404, {}, b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}'

    def _blob(self, digest: str, kind: str) -> tuple[dict[str, str], bytes]:
        content = self._read(f"blobs/{digest.replace(':', '/')}")
        return {"Docker-Content-Digest": digest, "Content-Type": kind}, content

    def _read(self, member: str) -> bytes:
        with tarfile.open(self._archive) as layout:
            file = layout.extractfile(member)
            assert file is not None
            return file.read()


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A runtime leaves its connections as it likes."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(*_)


def _handler(registry: Registry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 5

        def do_GET(self) -> None:
            status, headers, body = registry.answer(self.command, self.path, self.headers.get("Authorization", ""))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815  # the name http.server looks for

        def log_message(self, format: str, *args: object) -> None:
            """The test asks `Registry.asked` instead."""

    return Handler
