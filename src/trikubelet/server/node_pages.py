"""Pages about a node for people: /statusz and /flagz, its logs, its internals (/debug), checkpoints.

They are handlers for rows of the table ``core.node_access.PLACES``. A page that the configuration disables answers so,
in upstream's words; without enableDebuggingHandlers none of them exists.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

import trio

from trikubelet.httpd.messages import bare
from trikubelet.server.debug_pages import DebugPages, flagz, set_verbosity, statusz
from trikubelet.server.node_logs import ROOT, NodeLogs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from pathlib import Path

    from trikubelet.httpd.messages import Request, Response
    from trikubelet.model.kubelet_configuration import KubeletConfiguration
    from trikubelet.ports import Clock
    from trikubelet.server.checkpoints import Checkpoints
    from trikubelet.server.routes import Handler


class About(NamedTuple):
    """The agent's version, start time (nanoseconds since the epoch) and flags; ``paths``: of the API."""

    version: Callable[[], str]
    started_ns: int
    flags: Mapping[str, str]
    paths: Callable[[], Iterable[str]]


def pages(
    about: About,
    configuration: KubeletConfiguration,
    clock: Clock,
    checkpoints: Checkpoints | None,
    log_root: Path = ROOT,
) -> Mapping[str, Handler | None]:
    """Return the handlers, by path. ``checkpoints``: None if the feature is off, and then the path does not exist;
    ``log_root``: the directory of the node's logs."""
    logs = NodeLogs(queries=configuration.enable_system_log_query, root=log_root)
    inside = DebugPages()
    shown_logs = logs.answer if configuration.enable_system_log_handler else _off("logs endpoint is disabled.")
    set_flag = set_verbosity if configuration.enable_debug_flags_handler else _off("flags endpoint is disabled.")
    profiling = configuration.enable_profiling_handler
    off = _off("profiling endpoint is disabled.")

    async def show_status(_: Request) -> Response:
        await trio.lowlevel.checkpoint()
        return statusz(about.version(), about.started_ns, clock.now_ns(), about.paths())

    async def show_flags(_: Request) -> Response:
        await trio.lowlevel.checkpoint()
        return flagz(about.flags)

    return {
        "/statusz": show_status,
        "/flagz": show_flags,
        "/debug/pprof": inside.index if profiling else off,
        "/debug/pprof/{name}": inside.page if profiling else off,
        "/debug/flags/v": set_flag,
        "/logs": shown_logs,
        "/logs/{path...}": shown_logs,
        "/checkpoint/{namespace}/{pod}/{container}": None if checkpoints is None else checkpoints.answer,
    }


def _off(said: str) -> Callable[..., Awaitable[Response]]:
    async def answer(_: Request, *__: str) -> Response:
        await trio.lowlevel.checkpoint()
        return bare(said, HTTPStatus.METHOD_NOT_ALLOWED)

    return answer
