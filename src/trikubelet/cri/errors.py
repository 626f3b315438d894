"""Maps gRPC statuses to ``model.runtime_errors``, and back.

The client turns every status, every HTTP answer that is not gRPC and every reset stream into one of our classes; the
server turns our classes back, so that a handler can raise the errors that a caller catches. No other module handles
status codes.
"""

from __future__ import annotations

from typing import Final

from grpclib.const import Status

from trikubelet.model.runtime_errors import (
    AlreadyExists,
    InvalidArgument,
    MessageTooLarge,
    NoCriService,
    NotFound,
    NotImplementedByRuntime,
    ResourceExhausted,
    RuntimeCallError,
    RuntimeFailure,
    RuntimeTimeout,
    RuntimeUnavailable,
)

_CLASSES: Final[dict[Status, type[RuntimeCallError]]] = {
    Status.UNAVAILABLE: RuntimeUnavailable,
    Status.DEADLINE_EXCEEDED: RuntimeTimeout,
    Status.NOT_FOUND: NotFound,
    Status.ALREADY_EXISTS: AlreadyExists,
    Status.INVALID_ARGUMENT: InvalidArgument,
    Status.OUT_OF_RANGE: InvalidArgument,
    Status.UNIMPLEMENTED: NotImplementedByRuntime,
    Status.RESOURCE_EXHAUSTED: ResourceExhausted,
}
_NO_CRI: Final = ("unknown service runtime.v1.RuntimeService", "unknown service runtime.v1.ImageService")
# The HTTP answers of a proxy or a server that is no gRPC server, by gRPC's own table (doc/http-grpc-status-mapping.md).
_HTTP: Final = {
    400: Status.INTERNAL,
    401: Status.UNAUTHENTICATED,
    403: Status.PERMISSION_DENIED,
    404: Status.UNIMPLEMENTED,
    429: Status.UNAVAILABLE,
    502: Status.UNAVAILABLE,
    503: Status.UNAVAILABLE,
    504: Status.UNAVAILABLE,
}
# HTTP/2 error codes of RST_STREAM, by the table in gRPC's PROTOCOL-HTTP2.md; all others are INTERNAL. 7 is
# REFUSED_STREAM, which never reaches this table on the client's end: such a call is repeated.
_RESET: Final = {
    7: Status.UNAVAILABLE,
    8: Status.CANCELLED,
    11: Status.RESOURCE_EXHAUSTED,
    12: Status.PERMISSION_DENIED,
}


def error_for(code: int, message: str) -> RuntimeCallError:
    """Return the error for gRPC status ``code``; an unknown code becomes a RuntimeFailure with its number."""
    try:
        status = Status(code)
    except ValueError:
        return RuntimeFailure(message or f"the runtime answered with status {code} and no word", str(code))
    message = message or f"the runtime answered {status.name} and no word"
    # Go's gRPC library marks an oversized message only by its text. The caller must handle it differently: see lists.
    if status is Status.RESOURCE_EXHAUSTED and "message" in message and "larger than max" in message:
        return MessageTooLarge(message)
    # Go's gRPC library marks an unregistered service only by its text, too, which differs from that of a missing
    # method.
    if status is Status.UNIMPLEMENTED and message.startswith(_NO_CRI):
        return NoCriService(message)
    found = _CLASSES.get(status)
    return found(message) if found else RuntimeFailure(message, status.name)


def error_for_http(status: int) -> RuntimeCallError:
    """Return the error for an answer with another HTTP status than 200."""
    code = _HTTP.get(status, Status.UNKNOWN)
    return error_for(code.value, f"the runtime's socket answered HTTP status {status}, not gRPC")


def error_for_reset(code: int) -> RuntimeCallError:
    """Return the error for a stream that the other side reset with an HTTP/2 error code."""
    status = _RESET.get(code, Status.INTERNAL)
    return error_for(status.value, f"the runtime reset the call (HTTP/2 error code {code})")


def status_for(error: RuntimeCallError) -> tuple[Status, str]:
    """Return the status and text with which a server answers when its handler raised ``error``."""
    text = str(error)
    if isinstance(error, RuntimeFailure):
        return Status.__members__.get(error.code, Status.UNKNOWN), text
    if isinstance(error, MessageTooLarge):
        return Status.RESOURCE_EXHAUSTED, f"message larger than max: {text}"
    for status, kind in _CLASSES.items():
        if isinstance(error, kind):
            return status, text
    return Status.UNKNOWN, text
