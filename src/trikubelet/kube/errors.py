"""Maps a server's answers, and the failures to get one, to the errors of ``model.api_errors``.

Only a Status object is the server's own statement of an error. A load balancer that answers 404 without a server must
not look like a deleted pod: such an answer is an ``ApiFailure``. The two codes that mean the same from any server are
429 and 401.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import h11
import msgspec
import trio

from trikubelet.kube.dial import CannotConnect, NoMoreFiles, reason_of
from trikubelet.kube.transport import NoPlace
from trikubelet.model.api_errors import (
    ApiBusy,
    ApiError,
    ApiFailure,
    ApiLost,
    ApiUnreachable,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    ObjectExists,
    ObjectMissing,
    OutOfConnections,
    OutOfFiles,
    Refused,
    Unauthorized,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_CHARS_MAX: Final = 200
"""Length of an answer that is no Status, as shown to people."""
_AFTER_SECONDS_MAX: Final = 24 * 3600
"""More is no meaningful time."""
_TAG: Final = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_ALREADY_EXISTS: Final = "AlreadyExists"
_WANTS_TLS: Final = b"Client sent an HTTP request to an HTTPS server"
"""Go's servers answer this to a client that speaks plain HTTP to them."""
_UID: Final = "metadata.uid"
_TOO_NEW: Final = "ResourceVersionTooLarge"


class Cause(msgspec.Struct, frozen=True):
    """One of the things that are wrong."""

    field: str = ""
    reason: str = ""


class Details(msgspec.Struct, frozen=True, rename="camel"):
    """The details of a Status beyond its message."""

    causes: tuple[Cause, ...] | None = None
    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True):
    """The API's own reason for an outcome."""

    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: Details | None = None


_STATUSES: Final = msgspec.json.Decoder(Status)


def error_of_answer(code: int, headers: Mapping[str, str], body: bytes | bytearray) -> ApiError:
    """The error an answer with that HTTP code stands for; the code is not one of success."""
    status = _status(body)
    after = _after(headers.get("retry-after", ""), status)
    if status is not None:
        return error_of_status(msgspec.structs.replace(status, code=code), after)
    if code == HTTPStatus.BAD_REQUEST and body.startswith(_WANTS_TLS):
        return Refused("it speaks HTTPS and was asked in HTTP: write https:// for the server in its kubeconfig")
    shown = f"the server answered {code} {_phrase(code)}: {_short(body)}".removesuffix(": ")
    if code == HTTPStatus.TOO_MANY_REQUESTS or (code == HTTPStatus.SERVICE_UNAVAILABLE and after is not None):
        return ApiBusy(shown, after=after, code=code)
    return Unauthorized(shown) if code == HTTPStatus.UNAUTHORIZED else ApiFailure(shown)


def error_of_status(status: Status, after: float | None = None) -> ApiError:
    """The error a Status stands for. ``after``: when the server wants to be asked again, in seconds."""
    message, reason = status.message or status.reason or _phrase(status.code), status.reason
    match status.code:
        case 401:
            return Unauthorized(message, reason)
        case 403:
            return Forbidden(message, reason)
        case 404:
            return ObjectMissing(message, reason)
        case 409:
            return (ObjectExists if reason == _ALREADY_EXISTS else Conflict)(message, reason)
        case 410:
            return Expired(message, reason)
        case 422 if any(cause.field == _UID for cause in _causes(status)):
            # A patch for an object of another UID is answered that UIDs are immutable; a replacement, that it
            # conflicts.
            return Conflict(message, reason)
        case 422:
            return Invalid(message, reason, tuple(cause.field for cause in _causes(status) if cause.field))
        case 429:
            return ApiBusy(message, reason, after)
        case 503 as code if after is not None:
            return ApiBusy(message, reason, after, code)
        case 504 if any(cause.reason == _TOO_NEW for cause in _causes(status)):
            return Expired(message, reason)
        case 504:  # the server gave up waiting for itself; what was asked may still come true
            return ApiLost(message, reason)
        case code if 400 <= code < 500:
            return Refused(message, reason)
    return ApiFailure(message, reason)


@contextmanager
def transport_errors(server: str) -> Iterator[None]:
    """Maps what the transport raises within it. Raises ApiUnreachable, OutOfFiles, OutOfConnections, ApiLost and
    Refused."""
    try:
        yield
    except NoMoreFiles as error:
        raise OutOfFiles(
            f"no connection to {server}: {error}; more must be allowed (maxOpenFiles, LimitNOFILE=, ulimit -Hn)"
        ) from error
    except NoPlace as error:
        raise OutOfConnections(f"no request to {server}: {error}") from error
    except CannotConnect as error:
        raise ApiUnreachable(f"{server} cannot be reached: {error}") from error
    except h11.LocalProtocolError:
        # Its text may quote a header, which may be a token.
        raise Refused(
            "the request cannot be sent: is there a line break in the token or in a name to act as, or a strange"
            " character in the server's URL?"
        ) from None
    except (h11.RemoteProtocolError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
        raise ApiLost(f"the connection to {server} was lost: {reason_of(error)}") from error


def _status(body: bytes | bytearray) -> Status | None:
    try:
        status = _STATUSES.decode(body)
    except (ValueError, RecursionError):
        return None
    return status if status.kind == "Status" else None


def _causes(status: Status) -> tuple[Cause, ...]:
    return (status.details.causes if status.details is not None else None) or ()


def _after(header: str, status: Status | None) -> float | None:
    """When to ask again, in seconds. The header's other form, a date, is of no use: whose clock is right?"""
    if header.isascii() and header.isdecimal():
        return min(float(header), _AFTER_SECONDS_MAX)
    seconds = status.details.retry_after_seconds if status is not None and status.details is not None else 0
    return float(min(seconds, _AFTER_SECONDS_MAX)) if seconds > 0 else None


def _phrase(code: int) -> str:
    try:
        return HTTPStatus(code).phrase
    except ValueError:
        return ""


def _short(body: bytes | bytearray) -> str:
    """Return the readable part of an answer that is no JSON: its text without its markup, in one line."""
    text = " ".join(_TAG.sub(" ", body[: 16 * _CHARS_MAX].decode("utf-8", "replace")).split())
    return text if len(text) <= _CHARS_MAX else f"{text[:_CHARS_MAX]}…"
