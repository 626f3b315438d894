"""GET /containerLogs/NAMESPACE/POD/CONTAINER: what ``kubectl logs`` is given.

The API server hands our answer on: a body of 400 is what kubectl prints, so it ends without a newline, as upstream's.
What may be asked is in ``log_query``, which log is meant in ``NodeView.log``, how it is read in ``log_reader``.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from trikubelet.core.log_status import has_container, why_no_log
from trikubelet.core.query import flag
from trikubelet.httpd.messages import Response, bare
from trikubelet.server.log_query import log_query
from trikubelet.server.log_reader import read_log
from trikubelet.server.node_view import NoSuchPod, NotShown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.server.node_view import NodeView


def container_log(
    view: NodeView, now_ns: int, query: Mapping[str, str], namespace: str, name: str, container: str
) -> Response:
    """The log, or why there is none. ``now_ns``: nanoseconds since the epoch."""
    try:
        wanted = log_query(query, now_ns)
        previous = flag(query, "previous")
    except ValueError as error:
        return bare(str(error), HTTPStatus.BAD_REQUEST)
    lives = [pod for pod in view.pods() if (pod.metadata.namespace, pod.metadata.name) == (namespace, name)]
    if not lives:
        return bare(f'pod "{name}" does not exist', HTTPStatus.NOT_FOUND)
    if not any(has_container(pod, container) for pod in lives):
        return bare(f'container "{container}" not found in pod "{name}"', HTTPStatus.NOT_FOUND)
    # An older life of the same name may still end while the next one waits: either may have the log.
    reasons = [why_no_log(pod, container, previous=previous) for pod in lives]
    if None not in reasons:
        return bare(str(reasons[0]), HTTPStatus.BAD_REQUEST)
    try:
        place = view.log(namespace, name, container, previous=previous)
    except NoSuchPod as error:
        return bare(str(error), HTTPStatus.NOT_FOUND)
    except NotShown as error:
        return bare(str(error), HTTPStatus.BAD_REQUEST)
    body = read_log(place.path, wanted, place.is_over)
    return Response(headers={"content-type": "text/plain; charset=utf-8"}, body=body)
