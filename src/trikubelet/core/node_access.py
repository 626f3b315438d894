"""The table of the node's API: its paths, and the rights that a caller needs for each, in the form of authorizers.

A request becomes a verb on ``nodes/<subresource>`` of this node, and a right to any one of a row's subresources is
enough. Rights depend only on a path's first part, even if no row matches: so callers without rights cannot discover
paths, and paths that a web server and the agent read differently cannot be open by mistake. A first part that no row
has needs ``proxy``. (upstream-behaviour.md §1.21; the paths with two rights are upstream's KubeletFineGrainedAuthz,
which is always on since 1.36.)

``server.routes`` has a handler for each row. A new path needs a row here and a handler there, else the server does not
start.
"""

from __future__ import annotations

from typing import Final

from trikubelet.model.frozen import Frozen

PROXY: Final = "proxy"

_VERBS: Final = {"POST": "create", "GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_READ: Final = ("GET", "HEAD")
"""Paths for which upstream does not use go-restful, and so ignores the method. Elsewhere HEAD is 405, there and
here."""
_EITHER: Final = ("GET", "POST")
"""A WebSocket begins with a GET, SPDY with either; upstream accepts both for stats and for logs, too."""


class Opened(Frozen, kw_only=True):
    """How a path is open besides its rights. ``acts``: any method there is an action; ``debugging``: only with
    enableDebuggingHandlers; ``read_only``: to all callers, on the read-only port too."""

    acts: bool = False
    debugging: bool = False
    read_only: bool = False


_ACTS: Final = Opened(acts=True, debugging=True)
_DEBUGGING: Final = Opened(debugging=True)
_READ_ONLY: Final = Opened(read_only=True)


class Place(Frozen):
    """One path; a part in braces matches any text without a slash (``{x...}``: any text). ``rights``: the subresources
    of the node of which a right to any one is enough, the narrower first."""

    path: str
    rights: tuple[str, ...]
    opened: Opened
    methods: tuple[str, ...] = ("GET",)


PLACES: Final = (
    # is the agent well?
    Place("/healthz", ("healthz", PROXY), _READ_ONLY, _READ),
    Place("/healthz/{check}", ("healthz", PROXY), _READ_ONLY, _READ),
    # PodLists: the node's pods, and the running ones, as the runtime has them
    Place("/pods", ("pods", PROXY), _READ_ONLY),
    Place("/runningpods", ("pods", PROXY), _DEBUGGING),
    # metrics for Prometheus
    Place("/metrics", ("metrics",), _READ_ONLY, _READ),
    Place("/metrics/probes", ("metrics",), _READ_ONLY, _READ),
    Place("/metrics/slis", ("metrics",), _READ_ONLY, _READ),
    Place("/metrics/resource", ("metrics",), _READ_ONLY, _READ),
    Place("/metrics/cadvisor", ("metrics",), _READ_ONLY, _READ),
    # usage of node, pods, containers and volumes
    Place("/stats/summary", ("stats",), _READ_ONLY, _EITHER),
    # the configuration in force, the flags, and the agent's version
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
    # the agent's tasks, CPU time and memory; its log level
    Place("/debug/pprof", (PROXY,), _DEBUGGING),
    Place("/debug/pprof/{name}", (PROXY,), _DEBUGGING),
    Place("/debug/flags/v", (PROXY,), _DEBUGGING, ("PUT",)),
    # files below /var/log, journals by query
    Place("/logs", ("log",), _DEBUGGING, _EITHER),
    Place("/logs/{path...}", ("log",), _DEBUGGING, _EITHER),
    # a container's state as an archive; the path does not exist while the feature is off
    Place("/checkpoint/{namespace}/{pod}/{container}", ("checkpoint",), _DEBUGGING, ("POST",)),
)
"""All paths, in the order in which a request is compared with them."""


def _first(path: str) -> str:
    return path.removeprefix("/").partition("/")[0]


_RIGHTS: Final = {_first(place.path): place.rights for place in PLACES}
_ACTING: Final = frozenset(_first(place.path) for place in PLACES if place.opened.acts)


def verb(method: str, path: str) -> str:
    """Return the verb of an HTTP method at a path; "" for an unknown method, which only a right to everything covers.

    A WebSocket begins with a GET. For upstream's kubelet that is reading, so a right to read lets a caller execute.
    Here it is ``create``, like the POST of the other way to make the same request."""
    if method == "GET" and _first(path) in _ACTING:
        return _VERBS["POST"]
    return _VERBS.get(method, "")


def subresources(path: str) -> tuple[str, ...]:
    """Return the subresources of the node of which a right to any one is enough for a path, the narrower first."""
    return _RIGHTS.get(_first(path), (PROXY,))
