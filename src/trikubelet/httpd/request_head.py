"""The head of an HTTP/1.1 request, read so that no proxy in front of us can have read it otherwise.

    h11.Request ─► request_of ─► messages.Request, without its body
                      └─► NotServed: a status, and why

``h11`` has checked the grammar. Requests that it lets pass although two readers may understand them differently are
refused here: two ways to say where the body ends, a target that names no path of ours, a protocol that is no HTTP/1.
The path is taken apart by hand, because ``urlsplit`` finds a host in ``//pods`` and a fragment in ``/pods#x``, and Go
neither. (RFC 9112, sections 3.2 and 6.1)
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from trikubelet.httpd.messages import Request

if TYPE_CHECKING:
    import h11

    from trikubelet.model.certificates import Certificate

HEADERS_MAX: Final = 1000
"""Reading one costs some microseconds during which nothing else runs, however short it is."""
PATH_BYTES_MAX: Final = 8 * 1024
QUERY_BYTES_MAX: Final = 256 * 1024
"""To decode them costs as much time for a byte as to read headers does: a megabyte would be most of a second."""
QUERY_FIELDS_MAX: Final = 8000
"""Every argument of a command to execute is one. So many cost no more time than so many bytes may."""

FIELD_BYTES: Final = 512
"""Two strings, and their places in two dictionaries and a tuple."""


class NotServed(Exception):
    """A request that is not served: the status and, as the message, why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def request_of(head: h11.Request, header_bytes_max: int, certificate: Certificate | None) -> Request:
    """The request as handlers see it, before its body is read. Raises NotServed."""
    size = len(head.target) + sum(len(name) + len(value) for name, value in head.headers)
    if size > header_bytes_max or len(head.headers) > HEADERS_MAX:
        raise too_large()
    if head.http_version not in (b"1.0", b"1.1"):
        raise NotServed(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "only HTTP/1.1 is spoken here")
    headers = _headers(head)
    old = head.http_version == b"1.0"
    if "transfer-encoding" in headers and (old or "content-length" in headers):
        raise NotServed(HTTPStatus.BAD_REQUEST, "the request does not say clearly where its body ends")
    if old:
        headers.pop("upgrade", None)  # there was none in HTTP/1.0 (RFC 9110, 7.8), and h11 thinks so too late
    method = head.method.decode("ascii")
    path, query = _target(method, head.target.decode("ascii"))
    if len(path) > PATH_BYTES_MAX or len(query) > QUERY_BYTES_MAX:
        raise NotServed(HTTPStatus.REQUEST_URI_TOO_LONG, "the request's path or query is too long")
    try:
        # Bytes that are no UTF-8 are not replaced: in a command to execute, that would be another command.
        path = unquote(path, errors="strict")
        fields = parse_qsl(query, keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX, errors="strict")
    except UnicodeDecodeError as wrong:
        raise NotServed(HTTPStatus.BAD_REQUEST, "the request's path or query is not UTF-8") from wrong
    except ValueError as wrong:
        raise NotServed(HTTPStatus.BAD_REQUEST, f"the query cannot be read: {wrong}") from wrong
    values: dict[str, list[str]] = {}
    for key, value in fields:
        values.setdefault(key, []).append(value)
    first = {key: given[0] for key, given in values.items()}
    repeated = {key: tuple(given) for key, given in values.items()}
    return Request(method, path or "/", first, headers, b"", certificate, repeated)


def extra_bytes(request: Request) -> int:
    """Return about how much memory a request takes in addition to its bytes: each of its fields is some objects of
    Python's."""
    return FIELD_BYTES * (len(request.headers) + sum(map(len, request.repeated.values())))


def too_large() -> NotServed:
    """For a head that is larger than is read."""
    return NotServed(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request's headers are too large")


def _headers(head: h11.Request) -> dict[str, str]:
    """The values of each name, joined."""
    values: dict[str, list[str]] = {}
    for name, value in head.headers:
        values.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
    return {name: ", ".join(some) for name, some in values.items()}


def _target(method: str, target: str) -> tuple[str, str]:
    """Path and query, still encoded. Raises NotServed for what is neither a path nor the URL of one."""
    if method == "CONNECT":
        raise NotServed(HTTPStatus.NOT_IMPLEMENTED, "this is no proxy")
    if target.startswith("/") or (method, target) == ("OPTIONS", "*"):
        path, _, query = target.partition("?")
        return path, query
    try:
        url = urlsplit(target)
    except ValueError as wrong:
        raise NotServed(HTTPStatus.BAD_REQUEST, f"the request's target cannot be read: {wrong}") from wrong
    if url.scheme not in ("http", "https") or not url.netloc or url.fragment:
        raise NotServed(HTTPStatus.BAD_REQUEST, "the request's target is no path and no URL")
    return url.path, url.query
