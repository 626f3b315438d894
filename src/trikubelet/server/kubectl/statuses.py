"""Errors for kubectl: the API's ``Status``, whose message it prints."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from trikubelet.httpd.messages import Response, json

if TYPE_CHECKING:
    from trikubelet.httpd.messages import Upgrade

_REASONS: Final = {
    HTTPStatus.BAD_REQUEST: "BadRequest",
    HTTPStatus.UNAUTHORIZED: "Unauthorized",
    HTTPStatus.NOT_FOUND: "NotFound",
    HTTPStatus.METHOD_NOT_ALLOWED: "MethodNotAllowed",
    HTTPStatus.GONE: "Expired",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Invalid",
    HTTPStatus.TOO_MANY_REQUESTS: "TooManyRequests",
}
"""The API's reason for a status, by which clients decide; other statuses have none."""


class Refused(Exception):
    """A request cannot be answered; the message is for the client."""

    def __init__(self, code: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.code = code


def failure(code: int, message: str) -> dict[str, object]:
    """Return a Status of a failure."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    reason = _REASONS.get(HTTPStatus(code), "InternalError" if code >= HTTPStatus.INTERNAL_SERVER_ERROR else "")
    return {**status, "reason": reason, "code": int(code)}


def refused(code: int, message: str) -> Response:
    """Return the response with that failure."""
    return json(failure(code, message), code)


def as_status(answer: Response | Upgrade) -> Response | Upgrade:
    """Return an answer of the node's own API for kubectl: a refusal in plain text becomes a Status."""
    if not isinstance(answer, Response) or answer.status < HTTPStatus.BAD_REQUEST or not isinstance(answer.body, bytes):
        return answer
    return refused(answer.status, answer.body.decode(errors="replace").strip())
