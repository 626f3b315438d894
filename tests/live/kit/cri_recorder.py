"""A CRI socket that hands every call on to a runtime and keeps the requests that change something.

    kubelet ─► CriRecorder ─► runtime          `requests`: in the order in which they came, each by its pod

Used by ``surface_run.py`` between a kubelet and the tests' containerd. It is grpclib as published, on a thread with an
event loop of its own, and shares nothing but the messages with the product.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from google.protobuf.json_format import MessageToDict
from google.protobuf.message_factory import GetMessageClass
from grpclib.client import Channel, UnaryStreamMethod, UnaryUnaryMethod
from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError
from grpclib.server import Server

from trikubelet.cri.v1 import api_pb2 as api

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from grpclib.server import Stream

START_SECONDS_MAX: Final = 60.0
KEPT: Final = (
    "RunPodSandbox",
    "CreateContainer",
    "StartContainer",
    "StopContainer",
    "StopPodSandbox",
)
"""When a kubelet removes what has ended is a matter of garbage collection, so that is left out."""


@dataclass(frozen=True)
class Request:
    """One call that changed something: the names of its pod and, unless it is about the sandbox, of its container;
    the fields of the message, under their names in the CRI."""

    method: str
    pod: str
    container: str
    fields: dict[str, Any]


class CriRecorder:
    """Owns the socket and the requests. Use as a context manager; `requests` may be read from any thread."""

    def __init__(self, runtime: Path, socket: Path) -> None:
        self.socket = socket
        self._runtime = runtime
        self._lock = threading.Lock()
        self._requests: list[Request] = []
        self._pods: dict[str, str] = {}
        self._containers: dict[str, tuple[str, str]] = {}
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_until_complete, args=(self._serve(),), name="cri-recorder"
        )

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(START_SECONDS_MAX):
            raise TimeoutError(f"no socket at {self.socket} after {START_SECONDS_MAX:g} s")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()
        self._loop.close()

    @property
    def requests(self) -> tuple[Request, ...]:
        """The requests so far that succeeded."""
        with self._lock:
            return tuple(self._requests)

    async def _serve(self) -> None:
        self._ended = asyncio.Event()
        async with Channel(path=str(self._runtime)) as channel:
            server = Server([_Forwarding(service, channel, self._keep) for service in _services()])
            await server.start(path=str(self.socket))
            self._ready.set()
            await self._ended.wait()
            server.close()
            await server.wait_closed()

    def _keep(self, method: str, request: Any, reply: Any) -> None:
        if method not in KEPT:
            return
        with self._lock:
            if method == "RunPodSandbox":
                self._pods[reply.pod_sandbox_id] = request.config.metadata.name
            if method == "CreateContainer":
                pod = self._pods.get(request.pod_sandbox_id, "")
                self._containers[reply.container_id] = (pod, request.config.metadata.name)
            if hasattr(request, "container_id"):
                pod, container = self._containers.get(request.container_id, ("", ""))
            elif method == "CreateContainer":
                pod, container = self._containers[reply.container_id]
            else:
                pod = self._pods.get(getattr(request, "pod_sandbox_id", "") or getattr(reply, "pod_sandbox_id", ""), "")
                container = ""
            fields = MessageToDict(request, preserving_proto_field_name=True)
            self._requests.append(Request(method, pod, container, fields))


class _Forwarding:
    """A service whose every method is the runtime's; ``keep`` is given each unary call that succeeded."""

    def __init__(self, service: Any, channel: Channel, keep: Callable[[str, Any, Any], None]) -> None:
        self._service = service
        self._channel = channel
        self._keep = keep

    def __mapping__(self) -> dict[str, Handler]:
        return {f"/{self._service.full_name}/{method.name}": self._handler(method) for method in self._service.methods}

    def _handler(self, method: Any) -> Handler:
        request, reply = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
        path = f"/{self._service.full_name}/{method.name}"
        if method.server_streaming:
            call = UnaryStreamMethod(self._channel, path, request, reply)
            return Handler(self._streaming(call), Cardinality.UNARY_STREAM, request, reply)
        unary = UnaryUnaryMethod(self._channel, path, request, reply)
        return Handler(self._unary(method.name, unary), Cardinality.UNARY_UNARY, request, reply)

    def _unary(
        self, name: str, call: UnaryUnaryMethod[Any, Any]
    ) -> Callable[[Stream[Any, Any]], Coroutine[Any, Any, None]]:
        async def forward(stream: Stream[Any, Any]) -> None:
            request = await stream.recv_message()
            left = stream.deadline.time_remaining() if stream.deadline else None
            try:
                reply = await call(request, timeout=left)
            except TimeoutError:
                raise GRPCError(Status.DEADLINE_EXCEEDED) from None
            self._keep(name, request, reply)
            await stream.send_message(reply)

        return forward

    def _streaming(self, call: UnaryStreamMethod[Any, Any]) -> Callable[[Stream[Any, Any]], Coroutine[Any, Any, None]]:
        async def forward(stream: Stream[Any, Any]) -> None:
            request = await stream.recv_message()
            async with call.open() as told:
                await told.send_message(request, end=True)
                async for message in told:
                    await stream.send_message(message)

        return forward


def _services() -> list[Any]:
    return list(api.DESCRIPTOR.services_by_name.values())
