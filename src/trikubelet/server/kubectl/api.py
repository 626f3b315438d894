"""The API that kubectl reads on a node without a cluster: enough of an API server for reading and streaming.

    request ─► its token? invalid: 401 ─► its path:
                                       /api, /apis, /api/v1, /version, /openapi/v3   ``discovery``
                                       /healthz, /livez, /readyz                     "ok"
                                       /api/v1[/namespaces/N]/RESOURCE[/NAME]        ``reading``: list, get, watch
                                       …/pods/NAME/log                               a container's log
                                       …/pods/NAME/exec, attach, portforward         ``server.streams``
                                       anything else                                 404
                                       another method than those                     405, and which file to change

Pods, logs and streams are those of the node's own API and of the command line; this package adds the API's paths, terms
and errors. Nothing can be written, because the manifests define this node's pods; the answer to a write tells so. A
client with the token may do everything with a pod that the agent's own user may, so the token is readable for that user
only.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.query import flag
from trikubelet.httpd.messages import json, text
from trikubelet.server.authentication import bearer
from trikubelet.server.container_log import container_log
from trikubelet.server.kubectl.discovery import documents, with_schemas
from trikubelet.server.kubectl.history import History
from trikubelet.server.kubectl.reading import Reading
from trikubelet.server.kubectl.statuses import Refused, as_status, refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trikubelet.httpd.messages import Request, Response, Upgrade
    from trikubelet.ports import Clock
    from trikubelet.server.kubectl.resources import Resource
    from trikubelet.server.node_view import NodeView
    from trikubelet.server.streams import Streams

_READING: Final = ("GET", "HEAD")
POD_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "log": _READING,
    "exec": ("GET", "POST"),
    "attach": ("GET", "POST"),
    "portforward": ("GET", "POST"),
}
"""The paths below a pod's, and their methods: a WebSocket begins with a GET, SPDY with either."""
_HEALTH: Final = ("/healthz", "/livez", "/readyz")
_STREAMS_ASKED: Final = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
"""The API server's query parameters for the streams of a process, and the node's."""
_MILLISECOND_NS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class _Place:
    """The meaning of a path. An empty ``namespace`` is all of them, an empty ``name`` everything."""

    resource: str
    namespace: str = ""
    name: str = ""
    part: str = ""


class KubectlApi:
    """A ``Handler`` by its ``answer``. Owns nothing: its data is the view's and the histories'."""

    def __init__(
        self,
        resources: Sequence[Resource],
        view: NodeView,
        streams: Streams,
        clock: Clock,
        token: str,
        version: str,
        how_to_change: Callable[[str, str, str], str],
    ) -> None:
        """``token``: authenticates clients; ``version``: the node's; ``how_to_change``: returns advice for a client
        that tried to write the object with that resource, namespace and name; each is empty where it does not apply."""
        begin = clock.now_ns() // _MILLISECOND_NS
        self._resources = {resource.name: resource for resource in resources}
        self._reading = {one.name: Reading(History(one, begin), clock) for one in resources}
        self._documents = documents(resources, version)
        self._view = view
        self._streams = streams
        self._clock = clock
        self._token = token.encode()
        self._how_to_change = how_to_change

    async def answer(self, request: Request) -> Response | Upgrade:
        """Answer one request; every error is a Status."""
        await trio.lowlevel.checkpoint()
        if not hmac.compare_digest(bearer(request).encode(), self._token):
            return refused(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        try:
            return await self._answer(request)
        except Refused as error:
            return refused(error.code, str(error))
        except ValueError as error:
            return refused(HTTPStatus.BAD_REQUEST, str(error))

    async def _answer(self, request: Request) -> Response | Upgrade:
        """Raises Refused and ValueError."""
        path = "/" + request.path.strip("/")
        place = _place(path)
        resource = self._resources.get(place.resource)
        methods = resource.parts.get(place.part, _READING) if resource is not None else _READING
        if request.method not in methods:
            how = self._how_to_change(place.resource, place.namespace, place.name)
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, how)
        if path in self._documents:
            return json(await with_schemas(self._documents[path]))
        if path in _HEALTH:
            return text("ok")
        if resource is None or not _fits(place, resource):
            raise Refused(HTTPStatus.NOT_FOUND, "the server could not find the requested resource")
        if place.part:
            return as_status(await self._part(request, place))
        reading = self._reading[resource.name]
        if place.name:
            return await reading.one(request, place.namespace, place.name)
        return await reading.many(request, place.namespace)

    async def _part(self, request: Request, place: _Place) -> Response | Upgrade:
        """Answer at a path below a pod. Raises Refused and ValueError."""
        if place.part == "portforward":
            return await self._streams.port_forward(request, place.namespace, place.name)
        container = self._container(request, place)
        if place.part == "log":
            now_ns = self._clock.now_ns()
            return await container_log(self._view, now_ns, request.query, place.namespace, place.name, container)
        stream = self._streams.exec if place.part == "exec" else self._streams.attach
        asked = {ours: "1" if flag(request.query, theirs) else "" for theirs, ours in _STREAMS_ASKED.items()}
        return await stream(replace(request, query=asked), place.namespace, place.name, container)

    def _container(self, request: Request, place: _Place) -> str:
        """Return the requested container; by default the only one. Raises Refused, with upstream's message."""
        if name := request.query.get("container", ""):
            return name
        for pod in self._view.pods():
            if (pod.metadata.namespace, pod.metadata.name) == (place.namespace, place.name):
                spec = pod.spec
                if len(spec.containers) == 1:
                    return spec.containers[0].name
                names = [one.name for one in (*spec.init_containers, *spec.containers)]
                names += [one.name for one in spec.ephemeral_containers]
                choice = f"choose one of: [{' '.join(names)}]"
                raise Refused(
                    HTTPStatus.BAD_REQUEST, f"a container name must be specified for pod {place.name}, {choice}"
                )
        raise Refused(HTTPStatus.NOT_FOUND, f'pods "{place.name}" not found')


def _place(path: str) -> _Place:
    match path.strip("/").split("/"):
        case ["api", "v1", "namespaces", namespace, resource, *rest] if len(rest) <= 2:
            return _Place(resource, namespace, *rest)
        case ["api", "v1", resource, *rest] if len(rest) <= 2:
            return _Place(resource, "", *rest)
    return _Place("")


def _fits(place: _Place, resource: Resource) -> bool:
    """True if the resource can be requested so: namespaced objects by name only in a namespace, others without one."""
    if place.part and place.part not in resource.parts:
        return False
    if resource.namespaced:
        return bool(place.namespace) or not place.name
    return not place.namespace
