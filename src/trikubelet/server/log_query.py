"""What of a container's log is wanted, out of a request's query: upstream's PodLogOptions, for both servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.query import flag, whole
from trikubelet.core.timestamps import SECOND_NS, parse_rfc3339
from trikubelet.server.log_reader import LogQuery

if TYPE_CHECKING:
    from collections.abc import Mapping


def log_query(query: Mapping[str, str], now_ns: int) -> LogQuery:
    """What of the log is wanted. Raises ValueError."""
    stream = query.get("stream", "all").lower()
    if stream not in ("all", "stdout", "stderr"):
        raise ValueError(f"stream={stream}: write stdout, stderr or all")
    seconds = whole(query, "sinceSeconds", 1)
    moment = query.get("sinceTime", "")
    if seconds is not None and moment:
        raise ValueError("sinceSeconds and sinceTime: give one of them")
    since_ns = now_ns - seconds * SECOND_NS if seconds is not None else 0
    if moment:
        try:
            since_ns = parse_rfc3339(moment)
        except ValueError as error:
            raise ValueError(f"sinceTime={moment}: write a time such as 2026-11-21T07:01:02Z") from error
    return LogQuery(
        follow=flag(query, "follow"),
        tail_lines=whole(query, "tailLines"),
        since_ns=max(0, since_ns),
        limit_bytes=whole(query, "limitBytes", 1),
        timestamps=flag(query, "timestamps"),
        stream="" if stream == "all" else stream,
    )
