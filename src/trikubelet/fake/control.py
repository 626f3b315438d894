"""The HTTP page of the fake runtime and the API behind it: its state, and interventions.

    GET  /                                     the page
    GET  /state                                pods, sandboxes, containers, settings
    GET  /figures                              the cost of the lists, in CPU time
    POST /tick?fraction=0.1                    change that fraction of the pods
    POST /containers/ID/exit?code=1            a running container ends
    POST /sandboxes/ID/kill                    a sandbox ends, with its containers
    POST /pods/UID/hang, /pods/UID/release     status calls of a pod wait, and go on
    POST /settings?list-latency=50ms&…         other behaviour: list-latency, status-latency, error-rate

Answers are JSON, errors a line of text. A POST's parameters are in its query, and unknown ones are refused. The page is
for the machine it runs on: it has no authentication, and refuses POSTs from pages of other servers, and under a name
that DNS could resolve to this machine.
"""

from __future__ import annotations

from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from trikubelet.fake.conduct import LATENCY_SECONDS_MAX
from trikubelet.fake.page import as_html, state_word
from trikubelet.httpd.messages import Response, json, text
from trikubelet.model.duration import parse_duration
from trikubelet.model.runtime_errors import NotFound, RuntimeFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trikubelet.fake.conduct import Conduct
    from trikubelet.fake.figures import Figures
    from trikubelet.fake.pod_calls import FakePods
    from trikubelet.fake.records import Container, Sandbox
    from trikubelet.httpd.messages import Request

T = TypeVar("T")

SETTINGS = ("list-latency", "status-latency", "error-rate")


class Control:
    """Answers the requests. It owns nothing. ``churn``: the default fraction of a tick; if 0, 0.01."""

    def __init__(self, pods: FakePods, conduct: Conduct, figures: Figures, churn: float) -> None:
        self._pods = pods
        self._population = pods.population
        self._conduct = conduct
        self._figures = figures
        self._churn = churn or 0.01

    async def answer(self, request: Request) -> Response:
        """One request's response."""
        try:
            if request.method in ("GET", "HEAD"):
                return self._look(request.path)
            if request.method != "POST":
                return text("only GET and POST are known here", HTTPStatus.METHOD_NOT_ALLOWED, {"allow": "GET, POST"})
            if not _from_here(request):
                return text(
                    "orders are taken at an IP address or localhost, and not from a page of another server",
                    HTTPStatus.FORBIDDEN,
                )
            if request.body:
                raise ValueError("an order has no body: what it says stands in the query")
            if twice := [name for name, values in request.repeated.items() if len(values) > 1]:
                raise ValueError(f"{twice[0]} is said {len(request.repeated[twice[0]])} times: say it once")
            return json(self._act(request.path.strip("/").split("/"), request.query))
        except NotFound as missing:
            return text(str(missing), HTTPStatus.NOT_FOUND)
        except RuntimeFailure as refused:
            return text(str(refused), HTTPStatus.CONFLICT)
        except ValueError as wrong:
            return text(str(wrong), HTTPStatus.BAD_REQUEST)

    def _look(self, path: str) -> Response:
        match path:
            case "/":
                page = as_html(self._population, self._conduct)
                return Response(HTTPStatus.OK, {"content-type": "text/html; charset=utf-8"}, page.encode())
            case "/state":
                return json(self._state())
            case "/figures":
                return json(self._figures.shown())
        raise NotFound(f"nothing at {path}: /, /state and /figures can be looked at")

    def _act(self, words: list[str], query: dict[str, str]) -> Any:
        match words:
            case ["tick"]:
                _only(query, "fraction")
                fraction = _said(query, "fraction", read_fraction, self._churn)
                changed = self._population.tick(fraction)
                self._population.prepare()
                return {"changed": changed}
            case ["containers", id_, "exit"]:
                _only(query, "code")
                self._pods.exit_container(id_, _said(query, "code", _code, 0))
                return _container(self._pods.container(id_))
            case ["sandboxes", id_, "kill"]:
                _only(query)
                self._pods.stop_sandbox(id_)
                return _sandbox(self._pods.sandbox(id_))
            case ["pods", uid, "hang" | "release" as order]:
                _only(query)
                if uid not in self._population.pods:
                    raise NotFound(f"no pod {uid}")
                (self._conduct.hang if order == "hang" else self._conduct.release)(uid)
                return {"uid": uid, "hangs": uid in self._conduct.hung}
            case ["settings"]:
                self._set(query)
                return self._settings()
        raise NotFound(f"nothing can be done at /{'/'.join(words)}")

    def _set(self, query: dict[str, str]) -> None:
        """All or nothing. Raises ValueError."""
        _only(query, *SETTINGS)
        conduct = self._conduct
        listing = _said(query, "list-latency", read_latency, conduct.list_latency_seconds)
        status = _said(query, "status-latency", read_latency, conduct.status_latency_seconds)
        rate = _said(query, "error-rate", read_fraction, conduct.error_rate)
        conduct.list_latency_seconds, conduct.status_latency_seconds, conduct.error_rate = listing, status, rate

    def _settings(self) -> dict[str, Any]:
        conduct = self._conduct
        return {
            "list_latency_seconds": conduct.list_latency_seconds,
            "status_latency_seconds": conduct.status_latency_seconds,
            "error_rate": conduct.error_rate,
            "events": conduct.events,
            "streaming": conduct.streaming,
            "message_bytes_max": conduct.message_bytes_max,
        }

    def _state(self) -> dict[str, Any]:
        pods = [
            {
                "uid": uid,
                "hangs": uid in self._conduct.hung,
                "sandboxes": [_sandbox(sandbox) for sandbox in sandboxes.values()],
            }
            for uid, sandboxes in self._population.pods.items()
        ]
        return {"settings": self._settings(), "pods": pods}


def _sandbox(sandbox: Sandbox) -> dict[str, Any]:
    return {
        "id": sandbox.id,
        "name": sandbox.name,
        "namespace": sandbox.namespace,
        "attempt": sandbox.attempt,
        "ready": sandbox.ready,
        "ip": sandbox.ip if sandbox.ready else "",
        "containers": [_container(container) for container in sandbox.containers.values()],
    }


def _container(container: Container) -> dict[str, Any]:
    return {
        "id": container.id,
        "name": container.name,
        "attempt": container.attempt,
        "state": state_word(container),
        "exit_code": container.exit_code,
        "reason": container.reason,
    }


def _only(query: Mapping[str, str], *names: str) -> None:
    """Raises ValueError for a query with other parameters."""
    if unknown := [name for name in query if name not in names]:
        raise ValueError(f"{unknown[0]} means nothing here: {', '.join(names) or 'nothing'} can be said")


def _said(query: Mapping[str, str], name: str, read: Callable[[str], T], otherwise: T) -> T:
    """A value of the query, or ``otherwise`` where it has none. Raises ValueError, with the name."""
    if name not in query:
        return otherwise
    try:
        return read(query[name])
    except ValueError as wrong:
        raise ValueError(f"{name}: {wrong}") from None


def read_fraction(said: str) -> float:
    """A number from 0 to 1. Raises ValueError."""
    try:
        fraction = float(said)
    except ValueError:
        fraction = -1.0
    if not 0 <= fraction <= 1:
        raise ValueError(f"{said!r} is not a fraction from 0 to 1, such as 0.01")
    return fraction


def read_latency(said: str) -> float:
    """A duration in seconds, which are also the unit of a bare number. Raises ValueError."""
    seconds = float(said) if said.isascii() and said.replace(".", "", 1).isdecimal() else parse_duration(said)
    if not 0 <= seconds <= LATENCY_SECONDS_MAX:
        raise ValueError(f"{said!r} is not between 0 and {LATENCY_SECONDS_MAX:g} s")
    return seconds


def _code(said: str) -> int:
    if not (said.isascii() and said.isdecimal() and int(said) <= 255):
        raise ValueError(f"{said!r} is not an exit code from 0 to 255")
    return int(said)


def _from_here(request: Request) -> bool:
    """True if no browser can be sending this for a foreign page. An origin equal to the host does not suffice: DNS may
    have resolved the page's name to this machine after it was loaded."""
    host, origin = request.headers.get("host", ""), request.headers.get("origin")
    return _is_nobodys_name(host) and (origin is None or origin.partition("://")[2] == host)


def _is_nobodys_name(host: str) -> bool:
    """True if this is an address, or localhost, with or without a port."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or bool(ip_address(name))
    except ValueError:
        return False
