"""A container's log as both servers of the node serve it, and GET /containerLogs/NAMESPACE/POD/CONTAINER for kubectl.

The query is upstream's PodLogOptions. ``NodeView.log`` finds the log and ``log_reader`` reads it. The API server passes
our answer on, and kubectl prints the body of a 400, so it ends without a newline, like upstream's.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from trikubelet.core.log_status import has_container, why_no_log
from trikubelet.core.query import Unprocessable, flag, whole
from trikubelet.core.timestamps import SECOND_NS, parse_rfc3339
from trikubelet.httpd.messages import Response, bare
from trikubelet.server.log_reader import LogQuery, check_log, read_log
from trikubelet.server.node_view import NoSuchPod, NotShown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.server.node_view import LogPlace, NodeView


def log_query(query: Mapping[str, str], now_ns: int) -> LogQuery:
    """Return the requested part of the log. Raises ValueError, including Unprocessable."""
    stream = query.get("stream", "all").lower()
    if stream not in ("all", "stdout", "stderr"):
        raise Unprocessable(f"stream={stream}: write stdout, stderr or all")
    seconds = whole(query, "sinceSeconds", 1)
    moment = query.get("sinceTime", "")
    if seconds is not None and moment:
        raise Unprocessable("sinceSeconds and sinceTime: give one of them")
    since_ns = now_ns - seconds * SECOND_NS if seconds is not None else 0
    if moment:
        try:
            since_ns = parse_rfc3339(moment)
        except ValueError as error:
            raise ValueError(f"sinceTime={moment}: write a time such as 2026-11-21T07:01:02Z") from error
    tail_lines = whole(query, "tailLines")
    if tail_lines is not None and stream != "all":
        # The tail of a log is found by its lines, and those are of both streams.
        raise Unprocessable("`tailLines` and specific `stream` are mutually exclusive for now")
    return LogQuery(
        follow=flag(query, "follow"),
        tail_lines=tail_lines,
        since_ns=max(0, since_ns),
        limit_bytes=whole(query, "limitBytes", 1),
        timestamps=flag(query, "timestamps"),
        stream="" if stream == "all" else stream,
    )


async def container_log(
    view: NodeView, now_ns: int, query: Mapping[str, str], namespace: str, name: str, container: str
) -> Response:
    """Return the log, or the error. ``now_ns``: nanoseconds since the epoch."""
    try:
        wanted = log_query(query, now_ns)
        previous = flag(query, "previous")
    except Unprocessable as error:
        return bare(str(error), HTTPStatus.UNPROCESSABLE_ENTITY)
    except ValueError as error:
        return bare(str(error), HTTPStatus.BAD_REQUEST)
    lives = [pod for pod in view.pods() if (pod.metadata.namespace, pod.metadata.name) == (namespace, name)]
    if not lives:
        return bare(f'pod "{name}" does not exist', HTTPStatus.NOT_FOUND)
    if not any(has_container(pod, container) for pod in lives):
        return bare(f'container "{container}" not found in pod "{name}"', HTTPStatus.NOT_FOUND)
    # An earlier pod of the same name may still terminate while the next one waits: either may have the log.
    reasons = [why_no_log(pod, container, previous=previous) for pod in lives]
    if None not in reasons:
        return bare(str(reasons[0]), HTTPStatus.BAD_REQUEST)
    try:
        place = await view.log(namespace, name, container, previous=previous)
        return await log_of(container, place, wanted)
    except NoSuchPod as error:
        return bare(str(error), HTTPStatus.NOT_FOUND)
    except NotShown as error:
        return bare(str(error), HTTPStatus.BAD_REQUEST)


async def log_of(container: str, place: LogPlace, wanted: LogQuery) -> Response:
    """Return the log at that place, empty where there is no file. Raises NotShown if it cannot be opened, also because
    the disk does not answer."""
    try:
        # Before the answer begins: a later error can only cut it off.
        await check_log(place.path, place.threads)
    except FileNotFoundError:
        pass
    except OSError as error:
        why = f'cannot read the log of container "{container}" at {place.path}: {error.strerror}'
        raise NotShown(why) from error
    body = read_log(place.path, wanted, place.is_over, place.threads)
    return Response(headers={"content-type": "text/plain; charset=utf-8"}, body=body)
