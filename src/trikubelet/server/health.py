"""/healthz: health checks of the agent for people, load balancers and monitoring, on 127.0.0.1:10248.

    GET /healthz             200 "ok", or 500 with every deciding check that failed and why
    GET /healthz?verbose     the same with a line per check, and remarks; ?exclude=NAME leaves one out
    GET /healthz/NAME        one check

A check is a callable that returns a problem, or None; it must not wait. The same checks decide whether the systemd
watchdog is notified, see ``app.supervise``. Unlike upstream's, the answer has the reasons, because every client of this
port may read them. A *remark* is information about a check that passes; it follows the check's "ok".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.httpd.server import HttpLimits, Request, Response, serve_http, text
from trikubelet.model.errors import StartFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

Check = Callable[[], str | None]
"""Returns the problem, or None. A check that raises counts as failed."""
Checks = Mapping[str, Check]

PATH: Final = "/healthz"
REPORTED_ONLY: Final = frozenset({"pleg", "runtime", "device-plugin"})
"""Checks that ``/healthz`` lists and that do not decide its answer. Monitoring restarts an agent whose ``/healthz``
fails, and a restart repairs no container runtime and no directory; the node's Ready condition reports the first two."""
_NO_REMARKS: Final[Checks] = MappingProxyType({})
LIMITS: Final = HttpLimits(connections_max=32, header_bytes_max=16 * 1024, body_bytes_max=4096, idle_seconds_max=30.0)


def problems(checks: Checks) -> dict[str, str]:
    """Return the problems of the failed checks, by name."""
    found = {}
    for name, check in checks.items():
        try:
            wrong = check()
        except Exception as error:  # a check that raises has failed
            wrong = f"the check failed: {error!r}"
        if wrong is not None:
            found[name] = wrong
    return found


class Verdicts:
    """Owns the results of each check made for clients: their counts, and the last one (``/metrics/slis``)."""

    def __init__(self, checks: Checks) -> None:
        self.known: Final[Checks] = {"ping": _nothing_wrong, **checks}
        self.counts: Counter[tuple[str, str]] = Counter()
        """By a check's name, and success or error."""
        self.passed: dict[str, bool] = {}

    def problems(self, names: Iterable[str]) -> dict[str, str]:
        """Make the checks of those names and return the problems of the failed ones."""
        made = {name: self.known[name] for name in names}
        found = problems(made)
        self.passed |= {name: name not in found for name in made}
        self.counts.update((name, "error" if name in found else "success") for name in made)
        return found


def health_handler(verdicts: Verdicts, remarks: Checks = _NO_REMARKS) -> Callable[[Request], Awaitable[Response]]:
    """Return the handler of ``/healthz`` and the paths below it, for any server. ``remarks``: by the name of their
    check."""
    known = verdicts.known

    async def handle(request: Request) -> Response:
        await trio.lowlevel.checkpoint()
        if request.path != PATH and not request.path.startswith(f"{PATH}/"):
            return text("404 page not found", HTTPStatus.NOT_FOUND)
        if request.method not in ("GET", "HEAD"):
            return text("method not allowed", HTTPStatus.METHOD_NOT_ALLOWED, {"allow": "GET, HEAD"})
        name = request.path[len(PATH) :].strip("/")
        if name and name not in known:
            return text(f"unknown check {name}; checks: {', '.join(known)}", HTTPStatus.NOT_FOUND)
        if name:
            return _one(verdicts.problems([name]).get(name))
        asked = [key for key in known if key != request.query.get("exclude")]
        return _all(asked, verdicts.problems(asked), problems(remarks), request.query)

    return handle


async def serve_health(
    checks: Checks,
    remarks: Checks,
    address: str,
    port: int,
    *,
    task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve ``/healthz`` over TCP until cancelled. Started, with the port (chosen by the kernel for 0), once it
    listens. Raises StartFailed when the address cannot be bound."""
    try:
        listeners = await trio.open_tcp_listeners(port, host=address)
    except OSError as error:
        why = error.strerror or str(error)
        raise StartFailed(
            f"cannot serve {PATH} on {address} port {port}: {why} "
            "(give another: healthzPort, or --healthz-port=PORT, where 0 is none; or healthzBindAddress)"
        ) from error
    chosen: int = listeners[0].socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve_http, health_handler(Verdicts(checks), remarks), listeners, limits=LIMITS))
        task_status.started(chosen)


def _one(wrong: str | None) -> Response:
    return text("ok") if wrong is None else text(wrong, HTTPStatus.INTERNAL_SERVER_ERROR)


def _all(
    checks: Iterable[str], failed: Mapping[str, str], remarks: Mapping[str, str], query: Mapping[str, str]
) -> Response:
    has_failed = not failed.keys() <= REPORTED_ONLY
    if not has_failed and "verbose" not in query:
        return text("ok")
    lines = [_line(name, failed.get(name), remarks.get(name)) for name in checks]
    lines.append("healthz check failed" if has_failed else "healthz check passed")
    return text("\n".join(lines), HTTPStatus.INTERNAL_SERVER_ERROR if has_failed else HTTPStatus.OK)


def _line(name: str, wrong: str | None, remark: str | None) -> str:
    if wrong is not None:
        return f"[-]{name} failed: {wrong}"
    return f"[+]{name} ok" + (f": {remark}" if remark else "")


def _nothing_wrong() -> None:
    return None
