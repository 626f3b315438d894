"""What a caller of the node's API must be allowed, said as the API server's authorizers want to be asked.

A request becomes a verb on ``nodes/<subresource>`` of this node. For some paths there is a right of their own and the
broad ``proxy`` beside it; either is enough. What nobody thought of here needs ``proxy``. (upstream-behaviour.md §1.21;
the paths with two rights are upstream's KubeletFineGrainedAuthz, which is always on since 1.36.)
"""

from __future__ import annotations

from typing import Final

PROXY: Final = "proxy"

_OF_METHODS: Final = {"POST": "create", "GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_ALONE: Final = {
    "stats": "stats",
    "metrics": "metrics",
    "logs": "log",
    "checkpoint": "checkpoint",
    "statusz": "statusz",
    "flagz": "configz",
}
"""The right that a path's first part needs, where ``proxy`` does not help."""
_OR_PROXY: Final = {"pods": "pods", "runningpods": "pods", "healthz": "healthz", "configz": "configz"}


_ACTING: Final = frozenset({"exec", "attach", "portForward", "run"})
"""The first parts of the paths below which asking is doing, whatever the method."""


def verb(method: str, path: str) -> str:
    """The verb of an HTTP method at a path; "" for one that has none, which only a right to everything covers.

    A WebSocket begins with a GET. To upstream's kubelet that is reading, and so whoever may read may execute; here
    it is ``create``, as the POST of the other way to ask for the same."""
    if method == "GET" and _first(path) in _ACTING:
        return _OF_METHODS["POST"]
    return _OF_METHODS.get(method, "")


def subresources(path: str) -> tuple[str, ...]:
    """Of a path, the subresources of the node of which a right to any one is enough, the narrower first."""
    first = _first(path)
    if first in _ALONE:
        return (_ALONE[first],)
    if first in _OR_PROXY:
        return (_OR_PROXY[first], PROXY)
    return (PROXY,)


def _first(path: str) -> str:
    return path.removeprefix("/").partition("/")[0]
