"""The API for kubectl without a socket: a node made by hand, asked by requests as kubectl sends them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from shell.localkit import FakeAgent, FakeView, StoppedClock
from trikubelet.app.kubectl_resources import resources
from trikubelet.httpd.messages import Request, Response
from trikubelet.server.kubectl.api import KubectlApi
from trikubelet.server.streams import Streams

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from trikubelet.model.standard_streams import StandardStreams

TOKEN = "secret"
TABLE = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)


class FakeRuntime:
    """Says where it streams, and remembers what was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []

    async def exec_url(self, container_id: str, command: Sequence[str], streams: StandardStreams) -> str:
        self.asked.append(("exec", container_id, list(command), streams))
        return "http://127.0.0.1:1/"

    async def attach_url(self, container_id: str, streams: StandardStreams) -> str:
        self.asked.append(("attach", container_id, streams))
        return "http://127.0.0.1:1/"

    async def port_forward_url(self, sandbox_id: str, ports: Sequence[int]) -> str:
        self.asked.append(("forward", sandbox_id, list(ports)))
        return "http://127.0.0.1:1/"


class Bench:
    """A node, and what kubectl is answered by it."""

    def __init__(self, view: FakeView) -> None:
        self.view = view
        self.agent = FakeAgent()
        self.runtime = FakeRuntime()
        self.api = KubectlApi(
            resources(view, self.agent),
            view,
            Streams(view, self.runtime, 0),
            StoppedClock(),
            TOKEN,
            "v1.36.3+trikubelet.1",
            lambda *place: f"edit the file of {'/'.join(place)}",
        )

    async def ask(
        self, path: str, accept: str = "application/json", method: str = "GET", token: str = TOKEN, **query: str
    ) -> Response:
        """One answer."""
        headers = {"accept": accept, "authorization": f"Bearer {token}"}
        answer = await self.api.answer(Request(method, path, query, headers))
        assert isinstance(answer, Response)
        return answer

    async def told(self, path: str, accept: str = "application/json", **query: str) -> Any:
        """Return the parsed answer to a valid request."""
        answer = await self.ask(path, accept, **query)
        assert isinstance(answer.body, bytes)
        assert 200 == answer.status, answer.body
        return json.loads(answer.body)

    async def refused(self, path: str, method: str = "GET", token: str = TOKEN, **query: str) -> tuple[int, str, str]:
        """The code, reason and message of who is refused."""
        answer = await self.ask(path, method=method, token=token, **query)
        assert isinstance(answer.body, bytes)
        status = json.loads(answer.body)
        assert ("Status", "Failure", answer.status) == (status["kind"], status["status"], status["code"])
        return answer.status, status["reason"], status["message"]

    async def watch(self, path: str, accept: str = "application/json", **query: str) -> AsyncIterator[Any]:
        """The lines of a watch, parsed, as they come."""
        answer = await self.ask(path, accept, watch="1", **query)
        assert 200 == answer.status, answer.body
        assert not isinstance(answer.body, bytes)
        async for chunk in answer.body:
            for line in chunk.splitlines():
                yield json.loads(line)


def names(items: Any) -> list[str]:
    """Return the names in a list."""
    return [item["metadata"]["name"] for item in items["items"]]
