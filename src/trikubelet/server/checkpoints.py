"""POST /checkpoint/NAMESPACE/POD/CONTAINER[?timeout=SECONDS]: write a container's state to an archive, where the
runtime can.

    the container ─► <root>/checkpoints/checkpoint-POD_NAMESPACE-CONTAINER-TIME.tar ─► the runtime writes it
       └ not running: 404                                                            └ unsupported: 501, fails: 500

The archive contains all of the container's memory, secrets included. So only root may read its directory, and the API
neither serves nor removes it. (upstream-behaviour.md §1.24; kubernetes.io, "Kubelet Checkpoint API")
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.query import whole
from trikubelet.core.timestamps import rfc3339
from trikubelet.httpd.messages import Response, bare, json
from trikubelet.model.runtime_errors import NotFound, NotImplementedByRuntime, RuntimeCallError
from trikubelet.server.node_view import NotShown

if TYPE_CHECKING:
    from pathlib import Path

    from trikubelet.httpd.messages import Request
    from trikubelet.ports import Clock, Runtime
    from trikubelet.server.node_view import NodeView

DIRECTORY: Final = "checkpoints"
SECONDS_MAX: Final = 600
"""The runtime's default and longest time, in seconds."""
ANSWER_SECONDS: Final = 10.0
"""Time for the runtime to report its own timeout, in seconds after it."""
UNDER_WAY_MAX: Final = 2
"""Each checkpoint in progress writes as much as its container has memory."""


class Checkpoints:
    """Owns the number of checkpoints in progress."""

    def __init__(self, view: NodeView, runtime: Runtime, root_dir: Path, clock: Clock) -> None:
        self._view = view
        self._runtime = runtime
        self._directory = root_dir / DIRECTORY
        self._clock = clock
        self._under_way = 0

    async def answer(self, request: Request, namespace: str, pod: str, container: str) -> Response:
        """Have the checkpoint written and return its path."""
        await trio.lowlevel.checkpoint()
        try:
            seconds = whole(request.query, "timeout") or SECONDS_MAX
        except ValueError as error:
            return bare(str(error), HTTPStatus.BAD_REQUEST)
        try:
            found = self._view.running_container(namespace, pod, container)
        except NotShown as error:
            return bare(str(error), HTTPStatus.NOT_FOUND)
        if self._under_way >= UNDER_WAY_MAX:
            return bare("too many checkpoints are in progress (try again later)", HTTPStatus.TOO_MANY_REQUESTS)
        name = f"checkpoint-{pod}_{namespace}-{container}-{rfc3339(self._clock.now_ns())}.tar"
        self._under_way += 1
        try:
            return await self._write(found.id, self._directory / name, min(seconds, SECONDS_MAX))
        except (RuntimeCallError, trio.TooSlowError, OSError) as error:
            why = f"checkpointing of {namespace}/{pod}/{container} failed ({str(error) or 'it took too long'})"
            return bare(why, _status(error))
        finally:
            self._under_way -= 1

    async def _write(self, container_id: str, path: Path, seconds: int) -> Response:
        self._directory.mkdir(mode=0o700, exist_ok=True)
        with trio.fail_after(seconds + ANSWER_SECONDS):
            await self._runtime.checkpoint_container(container_id, str(path), seconds)
        return json({"items": [str(path)]})


def _status(error: Exception) -> int:
    if isinstance(error, NotImplementedByRuntime):
        return HTTPStatus.NOT_IMPLEMENTED
    return HTTPStatus.NOT_FOUND if isinstance(error, NotFound) else HTTPStatus.INTERNAL_SERVER_ERROR
