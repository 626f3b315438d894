"""Pages for debugging a running agent: /statusz, /flagz, /debug/pprof and /debug/flags/v.

    /statusz                        version and uptime
    /flagz                          every flag and its value
    /debug/pprof/goroutine          the Trio tasks, under upstream's name for the like
    /debug/pprof/profile?seconds=N  a CPU profile (``kit.profiles``), 30 seconds by default
    /debug/pprof/heap?seconds=N     memory allocated meanwhile, 5 seconds by default
    /debug/flags/v                  PUT: the log's verbosity from then on, by upstream's levels

The pages are text for people, not for programs, like upstream's. (upstream-behaviour.md §1.21)
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.query import whole
from trikubelet.core.timestamps import SECOND_NS, rfc3339
from trikubelet.httpd.messages import Response, bare, text
from trikubelet.kit import klog
from trikubelet.kit.profiles import Profiler
from trikubelet.kit.task_tree import task_tree
from trikubelet.kit.threads import StillRunning

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from trikubelet.httpd.messages import Request

log = logging.getLogger(__name__)

PROFILE_SECONDS, HEAP_SECONDS = 30, 5
SECONDS_MAX: Final = 60
_DIGITS_MAX: Final = 3
_LEVEL_SHOWN_MAX: Final = 40
INDEX: Final = "goroutine: the tasks\nprofile: where the processor's time goes\nheap: where new memory goes\n"
_WARNING: Final = "For people who look for a fault: the form may change with any version."


def statusz(version: str, started_ns: int, now_ns: int, paths: Iterable[str]) -> Response:
    """Return the page about the agent. Times are nanoseconds since the epoch."""
    minutes, seconds = divmod((now_ns - started_ns) // SECOND_NS, 60)
    hours, minutes = divmod(minutes, 60)
    lines = [
        "kubelet statusz",
        _WARNING,
        "",
        f"Started: {rfc3339(started_ns)}",
        f"Up: {hours} hr {minutes:02} min {seconds:02} sec",
        f"Binary version: {version}",
        f"Paths: {' '.join(sorted({'/' + path.split('/')[1] for path in paths}))}",
    ]
    return text("\n".join(lines))


def flagz(flags: Mapping[str, str]) -> Response:
    """Return every flag, by name."""
    lines = [f"{name}={value}" for name, value in sorted(flags.items())]
    return text("\n".join(["kubelet flagz", _WARNING, "", *lines]))


async def set_verbosity(request: Request) -> Response:
    """Set the log's verbosity to the number in the body."""
    await trio.lowlevel.checkpoint()
    level = request.body.decode(errors="replace").strip()
    if not (level.isascii() and level.isdigit() and len(level) <= _DIGITS_MAX):
        message = f"failed set klog.logging.verbosity {level[:_LEVEL_SHOWN_MAX]}: write a whole number, 0 or more"
        return bare(message, HTTPStatus.BAD_REQUEST)
    klog.turn_to(int(level))
    log.info("The log's verbosity is now %s, set by a request to the node's API", level)
    return bare(f"successfully set klog.logging.verbosity to {level}", HTTPStatus.OK)


class DebugPages:
    """/debug/pprof. Owns the profiler."""

    def __init__(self) -> None:
        self._profiler = Profiler()
        self._pages: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "goroutine": self._tasks,
            "profile": lambda request: _profiled(request, PROFILE_SECONDS, self._profiler.processor),
            "heap": lambda request: _profiled(request, HEAP_SECONDS, self._profiler.memory),
        }

    async def index(self, _: Request) -> Response:
        """Return the list of profiles."""
        await trio.lowlevel.checkpoint()
        return text(INDEX)

    async def page(self, request: Request, name: str) -> Response:
        """Return the profile of that name."""
        page = self._pages.get(name)
        if page is None:
            return text(f"unknown profile {name}; profiles: {', '.join(self._pages)}", HTTPStatus.NOT_FOUND)
        return await page(request)

    async def _tasks(self, _: Request) -> Response:
        await trio.lowlevel.checkpoint()
        return text(task_tree())


async def _profiled(request: Request, usual: int, profile: Callable[[float], Awaitable[str]]) -> Response:
    try:
        return text(await profile(whole(request.query, "seconds", 1, SECONDS_MAX) or usual))
    except ValueError as error:
        return bare(str(error), HTTPStatus.BAD_REQUEST)
    except StillRunning as error:
        return bare(str(error), HTTPStatus.CONFLICT)
    except OSError as error:
        return bare(str(error), HTTPStatus.SERVICE_UNAVAILABLE)
