"""A file with a line for every call to the fake runtime, to measure what happens between the calls.

One JSON object a line: the method, the pod's UID where the call is about one, and when it started and ended, in
nanoseconds of the machine's monotonic clock, which all its processes share.
"""

from __future__ import annotations

import json
import logging
import time
from typing import IO, TYPE_CHECKING, Any

from grpclib.const import Handler

from trikubelet.cri.v1 import api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.cri.server import Servable, Stream
    from trikubelet.fake.population import Population

log = logging.getLogger(__name__)


class Journaled:
    """A service whose calls are logged to the file."""

    def __init__(self, service: Servable, population: Population, file: IO[str]) -> None:
        self._service = service
        self._population = population
        self._file: IO[str] | None = file

    def __mapping__(self) -> Mapping[str, Handler]:
        """The service's methods, each with its line at the end."""
        return {path: self._watched(path, handler) for path, handler in self._service.__mapping__().items()}

    def _watched(self, path: str, handler: Handler) -> Handler:
        async def handle(stream: Stream[Any, Any]) -> None:
            began, heard = time.monotonic_ns(), _Heard(stream)
            try:
                await handler.func(heard)
            finally:
                line = {
                    "method": path.rpartition("/")[2],
                    "pod": self._pod_of(heard.request),
                    "began": began,
                    "ended": time.monotonic_ns(),
                }
                self._write(json.dumps(line))

        return Handler(handle, handler.cardinality, handler.request_type, handler.reply_type)

    def _write(self, line: str) -> None:
        if self._file is None:
            return
        try:
            self._file.write(line + "\n")
        except OSError as error:  # a full disk must not fail a call
            self._file = None
            log.warning("The journal ends here: %s", error.strerror)

    def _pod_of(self, request: Any) -> str:
        """The pod a call is about, if it names one that still exists."""
        if isinstance(request, pb.RunPodSandboxRequest):
            return request.config.metadata.uid
        if isinstance(request, pb.PullImageRequest):
            return request.sandbox_config.metadata.uid
        container = self._population.containers.get(getattr(request, "container_id", ""))
        sandbox = self._population.sandboxes.get(getattr(request, "pod_sandbox_id", ""))
        found = sandbox or (container.sandbox if container else None)
        return found.uid if found else ""


class _Heard:
    """A call's stream that remembers the request."""

    def __init__(self, stream: Stream[Any, Any]) -> None:
        self._stream = stream
        self.request: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def recv_message(self) -> Any:
        """As ``Stream`` has it."""
        self.request = await self._stream.recv_message()
        return self.request
