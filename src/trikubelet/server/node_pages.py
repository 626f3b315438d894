"""The routes of the node's API for people who look into a node: what runs here, its logs, its insides, checkpoints.

    /statusz, /flagz                          statusz, configz   what the agent is, and its flags
    /debug/pprof, /debug/pprof/NAME           proxy              its tasks, processor time and memory
    /debug/flags/v                            proxy, to update   PUT: how much its log says
    /logs, /logs/PATH                         log                files below /var/log, journals by query
    /checkpoint/NAMESPACE/POD/CONTAINER       checkpoint         POST: a container's state as an archive

What the configuration switches off says so, in upstream's words; all of it is gone without enableDebuggingHandlers.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

import trio

from trikubelet.httpd.messages import bare
from trikubelet.server.debug_pages import DebugPages, flagz, set_verbosity, statusz
from trikubelet.server.node_api import Route
from trikubelet.server.node_logs import ROOT, NodeLogs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from trikubelet.httpd.messages import Request, Response
    from trikubelet.model.kubelet_configuration import KubeletConfiguration
    from trikubelet.ports import Clock
    from trikubelet.server.checkpoints import Checkpoints


class About(NamedTuple):
    """What the agent is: its version, when it began (nanoseconds since the epoch), its flags; ``paths``: of the API."""

    version: str
    started_ns: int
    flags: Mapping[str, str]
    paths: Callable[[], Iterable[str]]


def page_routes(
    about: About,
    configuration: KubeletConfiguration,
    clock: Clock,
    checkpoints: Checkpoints | None,
    log_root: Path = ROOT,
) -> Sequence[Route]:
    """The routes. ``checkpoints``: None where the feature is off, and then there is no such path; ``log_root``: the
    directory of the node's logs."""
    logs = NodeLogs(queries=configuration.enable_system_log_query, root=log_root)
    pages = DebugPages()
    shown_logs = logs.answer if configuration.enable_system_log_handler else _off("logs endpoint is disabled.")
    set_flag = set_verbosity if configuration.enable_debug_flags_handler else _off("flags endpoint is disabled.")
    profiling = configuration.enable_profiling_handler
    off = _off("profiling endpoint is disabled.")

    async def show_status(_: Request) -> Response:
        await trio.lowlevel.checkpoint()
        return statusz(about.version, about.started_ns, clock.now_ns(), about.paths())

    async def show_flags(_: Request) -> Response:
        await trio.lowlevel.checkpoint()
        return flagz(about.flags)

    routes = [
        Route("/statusz", show_status, debugging=True),
        Route("/flagz", show_flags, debugging=True),
        Route("/debug/pprof", pages.index if profiling else off, debugging=True),
        Route("/debug/pprof/{name}", pages.page if profiling else off, debugging=True),
        Route("/debug/flags/v", set_flag, debugging=True, methods=("PUT",)),
        Route("/logs", shown_logs, debugging=True, methods=("GET", "POST")),
        Route("/logs/{path...}", shown_logs, debugging=True, methods=("GET", "POST")),
    ]
    if checkpoints is not None:
        path = "/checkpoint/{namespace}/{pod}/{container}"
        routes.append(Route(path, checkpoints.answer, debugging=True, methods=("POST",)))
    return routes


def _off(said: str) -> Callable[..., Awaitable[Response]]:
    async def answer(_: Request, *__: str) -> Response:
        await trio.lowlevel.checkpoint()
        return bare(said, HTTPStatus.METHOD_NOT_ALLOWED)

    return answer
