"""gRPC's health protocol at real servers on loopback."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError
from grpclib.health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from shell.handlers.serverkit import answer, serving
from shell.portkit import port_of_nobody
from trikubelet.cri.server import serve
from trikubelet.handlers.network import NetworkHandlers
from trikubelet.model.handlers import Health, Unreachable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

handlers = NetworkHandlers()


class Healths:
    """A health service that knows some services."""

    def __init__(self, known: Mapping[str, int]) -> None:
        self._known = known

    def __mapping__(self) -> Mapping[str, Handler]:
        check = Handler(self.check, Cardinality.UNARY_UNARY, HealthCheckRequest, HealthCheckResponse)
        return {"/grpc.health.v1.Health/Check": check}

    async def check(self, stream: Any) -> None:
        request = await stream.recv_message()
        if request.service not in self._known:
            raise GRPCError(Status.NOT_FOUND, "unknown service")
        await stream.send_message(HealthCheckResponse(status=self._known[request.service]))


class Nothing:
    """A gRPC server without a health service."""

    def __mapping__(self) -> Mapping[str, Handler]:
        return {}


@asynccontextmanager
async def grpc_server(service: Any) -> AsyncGenerator[int, None]:
    """Its port."""
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, [service], listener)
        yield listener.socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def check(port: int, service: str = "") -> Health:
    return await handlers.grpc_health("127.0.0.1", port, service, "kube-probe/1.36")


@pytest.mark.parametrize("state", list(Health))
async def test_the_state_of_a_service_is_reported(state: Health) -> None:
    async with grpc_server(Healths({"": 1, "a.Service" * 30: state})) as port:
        assert state == await check(port, "a.Service" * 30)
        assert Health.SERVING == await check(port)


async def test_an_error_status_is_a_failure_with_its_text() -> None:
    async with grpc_server(Healths({})) as port:
        with pytest.raises(Unreachable, match="health rpc probe failed: gRPC status 5: unknown service"):
            await check(port, "other")


async def test_a_server_without_the_protocol_is_told_apart() -> None:
    async with grpc_server(Nothing()) as port:
        with pytest.raises(Unreachable, match="does not implement the grpc health protocol"):
            await check(port)


async def test_unreachable_service_is_a_failure() -> None:
    refused = r"^error: failed to connect service .* connection refused$"
    with port_of_nobody() as port, pytest.raises(Unreachable, match=refused):
        await check(port)


@pytest.mark.parametrize(
    "said",
    [
        answer(200),
        b"",
        b"\0\0\6\4\0\0\0\0\0\0\5\0\0\0\0",
        b"\0\0\0\4\0\0\0\0\0" + b"\0\0\4\x08\0\0\0\0\0\0\0\0\1" * 30_000,
    ],
)
async def test_what_is_no_grpc_is_a_failure(said: bytes) -> None:
    async with serving(said) as script:
        with pytest.raises(Unreachable, match="health rpc probe failed"):
            await check(script.port)
