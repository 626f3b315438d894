"""The failures of a request to an API server, one class per decision of the caller.

The adapter maps HTTP answers and their Status objects to these at the seam and nowhere else; the memory API server
raises them directly. Ask again later: ApiUnreachable, ApiLost, ApiBusy, ApiFailure. Find out which side is right:
Conflict, ObjectExists. It is gone: ObjectMissing. List again: Expired. Tell the user: Forbidden, Invalid, Refused.
Wait: the part that holds the credentials logs Unauthorized, once for all callers, and NothingToShow is this node's own
problem.
"""

from __future__ import annotations

from typing import Final

from trikubelet.kit.answered_failure import AnsweredFailure
from trikubelet.kit.local_failure import LocalFailure

RETRY_AFTER_SECONDS_MAX: Final = 30.0
"""A server, or a proxy before it, may name hours (``Retry-After: 3600`` on a maintenance page). A client that waits
them out sends nothing for an hour after the server is back, so a longer wish counts as this."""


class ApiError(Exception):
    """A request to the API server failed. The message is the server's own where it had one, for a user to read;
    ``reason`` is the Status' reason ("" without one)."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class ApiUnreachable(ApiError):
    """No connection could be made: nothing has been asked."""


class OutOfFiles(ApiUnreachable, LocalFailure):
    """No connection could be made because this process, or this machine, may open no more files."""


class OutOfConnections(ApiUnreachable, LocalFailure):
    """No connection could be had because all that one client may have are in use, as by watches: nothing has been
    asked."""


class ApiLost(ApiError):
    """The connection was lost, or nothing came for too long (504): what was asked may be done or not; look first."""


class ApiBusy(ApiError, AnsweredFailure):
    """The server asks to come back later (429, or 503 with a time: the ``code``); nothing has been done. ``after`` is
    its wish in seconds, None when it named none."""

    def __init__(self, message: str, reason: str = "", after: float | None = None, code: int = 429) -> None:
        super().__init__(message, reason)
        self.after = after
        self.code = code


def retry_after_seconds(error: BaseException) -> float:
    """The pause that the server asked for with this error (Retry-After), at most ``RETRY_AFTER_SECONDS_MAX``; 0 where
    it asked for none."""
    after = error.after if isinstance(error, ApiBusy) else None
    return min(after or 0.0, RETRY_AFTER_SECONDS_MAX)


class ApiFailure(ApiError, AnsweredFailure):
    """The server failed by itself (any other 5xx), or gave an answer that cannot be understood."""


PASSING: Final = (ApiUnreachable, ApiLost, ApiBusy, ApiFailure)
"""Failures that only time mends: the server is away, or fails. All others an operator has to mend."""


class Unauthorized(ApiError):
    """The server does not know who asks (401): the credentials are expired, revoked or of another cluster. It is there,
    and has answered."""


class NothingToShow(ApiError, LocalFailure):
    """The server was not asked: there is nothing to show it, because no token can be read or made on this node."""


class Forbidden(ApiError):
    """The server knows who asks and says no (403)."""


class ObjectMissing(ApiError):
    """There is no such object, or no such resource (404)."""


class ObjectExists(ApiError):
    """The name is taken (409)."""


class Conflict(ApiError):
    """A precondition on UID or resource version does not hold: another client was first (409)."""


OVERTAKEN: Final = (Conflict, ObjectExists, ObjectMissing)
"""Another client wrote the object, made it or deleted it first: a caller that looks again may do better."""


class Expired(ApiError):
    """The resource version or continue token is too old to go on from (410), or newer than all this server has (504
    with the cause ResourceVersionTooLarge): list again."""


class Invalid(ApiError):
    """The object would break a rule of the API (422); sending it again will not help. ``fields`` are the paths the
    server named."""

    def __init__(self, message: str, reason: str = "Invalid", fields: tuple[str, ...] = ()) -> None:
        super().__init__(message, reason)
        self.fields = fields


class Refused(ApiError):
    """Any other 4xx: the request itself is wrong for this server, and asking again will not help."""
