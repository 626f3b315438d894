"""The table of the node's API: its paths, and what a caller must be allowed for each, as authorizers want to be asked.

A request becomes a verb on ``nodes/<subresource>`` of this node, and a right to any one of a row's subresources is
enough. Rights go by a path's first part alone, whether or not a row is met: so nobody learns what there is before they
may have it, and paths that a web server and we read differently cannot be open by mistake. What no row begins with
needs ``proxy``. (upstream-behaviour.md §1.21; the paths with two rights are upstream's KubeletFineGrainedAuthz, which
is always on since 1.36.)

``server.routes`` has a handler answer at each row. A new path is a row here and a handler there, or nothing starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PROXY: Final = "proxy"

_VERBS: Final = {"POST": "create", "GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_READ: Final = ("GET", "HEAD")
"""Where upstream has no go-restful, and so looks at no method. Elsewhere HEAD is 405, there and here."""
_EITHER: Final = ("GET", "POST")
"""A WebSocket begins with a GET, SPDY with either; upstream takes both for what things use and for logs, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """How a path is open besides its rights. ``acts``: to ask there is to act, whatever the method; ``debugging``: only
    with enableDebuggingHandlers; ``read_only``: to everybody, on the read-only port too."""

    acts: bool = False
    debugging: bool = False
    read_only: bool = False


_ACTS: Final = Opened(acts=True, debugging=True)
_DEBUGGING: Final = Opened(debugging=True)
_READ_ONLY: Final = Opened(read_only=True)


@dataclass(frozen=True, slots=True)
class Place:
    """One path, a part in braces standing for any text without a slash (``{x...}`` for any text). ``rights`` are the
    subresources of the node of which a right to any one is enough, the narrower first."""

    path: str
    rights: tuple[str, ...]
    opened: Opened
    methods: tuple[str, ...] = ("GET",)


PLACES: Final = (
    # is the agent well?
    Place("/healthz", ("healthz", PROXY), _READ_ONLY, _READ),
    Place("/healthz/{check}", ("healthz", PROXY), _READ_ONLY, _READ),
    # PodLists: of the node's pods, and of what runs, as the runtime has it
    Place("/pods", ("pods", PROXY), _READ_ONLY),
    Place("/runningpods", ("pods", PROXY), _DEBUGGING),
    # what was measured, for Prometheus
    Place("/metrics", ("metrics",), _READ_ONLY, _READ),
    Place("/metrics/probes", ("metrics",), _READ_ONLY, _READ),
    Place("/metrics/slis", ("metrics",), _READ_ONLY, _READ),
    Place("/metrics/resource", ("metrics",), _READ_ONLY, _READ),
    Place("/metrics/cadvisor", ("metrics",), _READ_ONLY, _READ),
    # what node, pods, containers and volumes use
    Place("/stats/summary", ("stats",), _READ_ONLY, _EITHER),
    # the configuration that holds, the flags, and what the agent is
    Place("/configz", ("configz", PROXY), _DEBUGGING, _READ),
    Place("/flagz", ("configz",), _DEBUGGING),
    Place("/statusz", ("statusz",), _DEBUGGING),
    # a container's log
    Place("/containerLogs/{namespace}/{pod}/{container}", (PROXY,), _DEBUGGING),
    # a command, or the container's own process; with the pod's UID and without
    Place("/exec/{namespace}/{pod}/{container}", (PROXY,), _ACTS, _EITHER),
    Place("/exec/{namespace}/{pod}/{uid}/{container}", (PROXY,), _ACTS, _EITHER),
    Place("/attach/{namespace}/{pod}/{container}", (PROXY,), _ACTS, _EITHER),
    Place("/attach/{namespace}/{pod}/{uid}/{container}", (PROXY,), _ACTS, _EITHER),
    Place("/run/{namespace}/{pod}/{container}", (PROXY,), _ACTS, ("POST",)),
    Place("/run/{namespace}/{pod}/{uid}/{container}", (PROXY,), _ACTS, ("POST",)),
    # connections to the pod's ports
    Place("/portForward/{namespace}/{pod}", (PROXY,), _ACTS, _EITHER),
    Place("/portForward/{namespace}/{pod}/{uid}", (PROXY,), _ACTS, _EITHER),
    # the agent's tasks, processor time and memory; how much its log says
    Place("/debug/pprof", (PROXY,), _DEBUGGING),
    Place("/debug/pprof/{name}", (PROXY,), _DEBUGGING),
    Place("/debug/flags/v", (PROXY,), _DEBUGGING, ("PUT",)),
    # files below /var/log, journals by query
    Place("/logs", ("log",), _DEBUGGING, _EITHER),
    Place("/logs/{path...}", ("log",), _DEBUGGING, _EITHER),
    # a container's state as an archive; there is no such path where the feature is off
    Place("/checkpoint/{namespace}/{pod}/{container}", ("checkpoint",), _DEBUGGING, ("POST",)),
)
"""All there is, in the order in which a request is compared with it."""


def _first(path: str) -> str:
    return path.removeprefix("/").partition("/")[0]


_RIGHTS: Final = {_first(place.path): place.rights for place in PLACES}
_ACTING: Final = frozenset(_first(place.path) for place in PLACES if place.opened.acts)


def verb(method: str, path: str) -> str:
    """The verb of an HTTP method at a path; "" for one that has none, which only a right to everything covers.

    A WebSocket begins with a GET. To upstream's kubelet that is reading, and so whoever may read may execute; here
    it is ``create``, as the POST of the other way to ask for the same."""
    if method == "GET" and _first(path) in _ACTING:
        return _VERBS["POST"]
    return _VERBS.get(method, "")


def subresources(path: str) -> tuple[str, ...]:
    """Of a path, the subresources of the node of which a right to any one is enough, the narrower first."""
    return _RIGHTS.get(_first(path), (PROXY,))
