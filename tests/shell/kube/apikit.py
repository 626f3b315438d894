"""A TLS server that plays an API server.

The server says what a test tells it to and remembers who asked: the common name of each connection's certificate.
"""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio

from trikubelet.httpd.connection import HttpConnection
from trikubelet.httpd.messages import HttpLimits, Request, Response
from trikubelet.kube.client import ApiClient
from trikubelet.kube.credentials import Credentials
from trikubelet.model.kubeconfig import ClusterAccess, Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from typing import Any

    from trustme import CA

    Attend = Callable[[trio.abc.Stream], Awaitable[None]]


@dataclass
class PlayedServer:
    """What a test sees of its server. ``answer`` may be replaced at any time."""

    url: str
    answer: Callable[[Request], Awaitable[Response]]
    callers: list[str] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    attend: Attend | None = None
    """Instead of HTTP: what to do with a connection once TLS is up."""

    async def handle(self, request: Request) -> Response:
        self.requests.append(request)
        return await self.answer(request)


def serving_certificate(authority: CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


@asynccontextmanager
async def serving(
    context: ssl.SSLContext | None, answer: Callable[[Request], Awaitable[Response]]
) -> AsyncIterator[PlayedServer]:
    """A server on a free port of this machine, with TLS when there is a context for it."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    played = PlayedServer(f"{'https' if context else 'http'}://127.0.0.1:{port}", answer)

    async def attend(plain: trio.SocketStream) -> None:
        stream: trio.abc.Stream = plain
        try:
            if context is not None:
                secure = trio.SSLStream(plain, context, server_side=True, https_compatible=True)
                await secure.do_handshake()
                played.callers.append(_caller(secure))
                stream = secure
            if played.attend is not None:
                await played.attend(stream)
            else:
                await HttpConnection(stream, played.handle, HttpLimits()).run()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client has gone
        finally:
            await trio.aclose_forcefully(stream)

    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, attend, [listener])
        yield played
        nursery.cancel_scope.cancel()


def _caller(stream: Any) -> str:
    shown = stream.getpeercert() or {}
    return next((value for part in shown.get("subject", ()) for name, value in part if name == "commonName"), "")


class FixedClock:
    """Wall time that stands where it is put."""

    def __init__(self) -> None:
        self.ns = 1_800_000_000_000_000_000

    def now_ns(self) -> int:
        return self.ns


def client_pem(authority: CA, name: str) -> bytes:
    """A client certificate and its key, as one file has them."""
    return authority.issue_cert(common_name=name).private_key_and_cert_chain_pem.bytes()


def access_to(url: str, ca: bytes | None = None, **more: Any) -> ClusterAccess:
    return ClusterAccess(Server(url, ca), **more)


@asynccontextmanager
async def asking(access: ClusterAccess, **more: Any) -> AsyncIterator[ApiClient]:
    """A client; its connections are closed at the end."""
    client = ApiClient(Credentials(access, FixedClock(), {}), "trikubelet/test", **more)
    try:
        yield client
    finally:
        client.reset()


class _CancelAtStep(trio.abc.Instrument):
    """Cancels a scope when a task is about to take a step."""

    def __init__(self, step: int, scope: trio.CancelScope) -> None:
        self._task = trio.lowlevel.current_task()
        self._steps_left = step
        self._scope = scope

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self._steps_left -= 1
            if self._steps_left == 0:
                self._scope.cancel()


@contextmanager
def cancelling_at(step: int, scope: trio.CancelScope) -> Iterator[None]:
    """The scope is cancelled when this task, in the block, is about to take that step, counted from 1."""
    instrument = _CancelAtStep(step, scope)
    trio.lowlevel.add_instrument(instrument)
    try:
        yield
    finally:
        trio.lowlevel.remove_instrument(instrument)


@contextmanager
def cancelled_at(step: int) -> Iterator[trio.CancelScope]:
    """The block is cancelled when its task is about to take that step."""
    with trio.CancelScope() as scope, cancelling_at(step, scope):
        yield scope
