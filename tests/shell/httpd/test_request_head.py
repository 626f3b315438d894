"""Requests' heads: what is asked for is what everybody else reads in them, and what two could read in two ways is no
request.
"""

from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.httpd.messages import Request
from trikubelet.httpd.request_head import (
    HEADERS_MAX,
    PATH_BYTES_MAX,
    QUERY_BYTES_MAX,
    QUERY_FIELDS_MAX,
    NotServed,
    request_of,
)


def read(raw: bytes, header_bytes_max: int = 10**6) -> Request:
    """The request that some bytes begin. Raises NotServed, or h11's error."""
    http = h11.Connection(h11.SERVER, max_incomplete_event_size=10**7)
    http.receive_data(raw)
    head = http.next_event()
    assert isinstance(head, h11.Request), head
    return request_of(head, header_bytes_max, None)


def asked(target: str, method: str = "GET") -> Request:
    return read(f"{method} {target} HTTP/1.1\r\nhost: n\r\n\r\n".encode())


# ---- targets ----


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/pods", "/pods"),
        ("/pods", "/pods?x=1"),
        ("/pods", "http://n/pods"),
        ("/pods", "HTTPS://elsewhere:1/pods?x=1"),
        ("/", "http://n"),
        ("/", "http://n?x=1"),
        ("//pods", "//pods"),
        ("//n/pods", "//n/pods"),
        ("//n:x/pods", "//n:x/pods"),
        ("/pods#x", "/pods#x"),
        ("/pods;x", "/pods;x"),
        ("/a/../exec", "/a/../exec"),
        ("/a/../exec", "/a/%2e%2e/exec"),
        ("/a/b", "/a%2fb"),
        ("/a%2fb", "/a%252fb"),
        ("/a\0\r\nb", "/a%00%0d%0ab"),
        ("/http://n/pods", "/http://n/pods"),
        ("/a b+c", "/a%20b+c"),
    ],
)
def test_a_path_is_what_is_written_decoded_once_and_no_more(path: str, target: str) -> None:
    assert path == asked(target).path


@pytest.mark.parametrize("target", ["/a%ff", "/a?x=%ff"])
def test_what_is_no_utf_8_is_refused_and_not_replaced(target: str) -> None:
    with pytest.raises(NotServed, match="the request's path or query is not UTF-8") as refused:
        asked(target)
    assert 400 == refused.value.status


@pytest.mark.parametrize("target", ["*", "pods", "n:10250", "http:pods", "http:///pods", "ftp://n/pods", "http://[",
                                    "http://n/pods#x", "?x=1", "#", "file:///etc/passwd", "javascript:x"])  # fmt: skip
def test_a_target_that_names_no_path_here_is_refused(target: str) -> None:
    with pytest.raises(NotServed) as refused:
        asked(target)
    assert 400 == refused.value.status


def test_the_server_itself_may_be_asked_for_its_options_alone() -> None:
    assert "*" == asked("*", "OPTIONS").path


@pytest.mark.parametrize("target", ["n:10250", "/pods", "http://n/pods"])
def test_nothing_is_connected_through_here(target: str) -> None:
    with pytest.raises(NotServed) as refused:
        asked(target, "CONNECT")
    assert 501 == refused.value.status


def test_of_a_field_given_twice_the_first_counts_and_all_are_there() -> None:
    request = asked("/?a=1&b=&a=2&c&a=%26")

    assert ({"a": "1", "b": "", "c": ""}, ("1", "2", "&")) == (request.query, request.repeated["a"])


def test_a_command_may_have_thousands_of_words_and_not_any_number() -> None:
    most = "&".join(["command=x"] * QUERY_FIELDS_MAX)

    assert ("x",) * 8000 == asked(f"/exec/default/web/app?{most}").repeated["command"]
    with pytest.raises(NotServed, match="the query cannot be read") as refused:
        asked(f"/exec/default/web/app?{most}&output=1")
    assert 400 == refused.value.status


@given(st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=40))
def test_no_path_is_read_that_was_not_written(rest: str) -> None:
    written = "/" + rest.partition("?")[0]
    if "%" not in written:
        assert written == asked("/" + rest).path


# ---- where a body ends, and what else may be said in two ways ----

CHUNKED, LENGTH = "transfer-encoding: chunked\r\n", "content-length: 3\r\n"


@pytest.mark.parametrize(
    ("version", "headers", "status"),
    [
        ("1.1", LENGTH + CHUNKED, 400),
        ("1.1", CHUNKED + LENGTH, 400),
        ("1.1", CHUNKED + "content-length: 0\r\n", 400),
        ("1.0", CHUNKED, 400),
        ("2.0", "", 505),
        ("1.2", "", 505),
        ("0.9", "", 505),
    ],
)
def test_what_h11_lets_pass_and_another_may_read_otherwise_is_refused(version: str, headers: str, status: int) -> None:
    with pytest.raises(NotServed) as refused:
        read(f"POST /x HTTP/{version}\r\nhost: n\r\n{headers}\r\n".encode())
    assert status == refused.value.status


@pytest.mark.parametrize(
    "headers",
    [
        b"host: n\r\nhost: n\r\n",
        b"",
        b"host: n\r\ncontent-length: 3\r\ncontent-length: 4\r\n",
        b"host: n\r\ncontent-length: 3, 4\r\n",
        b"host: n\r\ncontent-length: +3\r\n",
        b"host: n\r\ncontent-length: 0x3\r\n",
        b"host: n\r\ncontent-length: -1\r\n",
        b"host: n\r\ncontent-length: 99999999999999999999999\r\n",
        b"host: n\r\ntransfer-encoding: gzip, chunked\r\n",
        b"host: n\r\ntransfer-encoding: xchunked\r\n",
        b"host: n\r\ntransfer-encoding: chunked\r\ntransfer-encoding: identity\r\n",
        b"host: n\r\ntransfer-encoding : chunked\r\n",
        b"host: n\r\ntransfer-encoding\x0b: chunked\r\n",
        b"host: n\r\n: chunked\r\n",
        b"host: n\r\nx\r\n",
        b"host: n\r\nx: a\rcontent-length: 3\r\n",
        b"host: n\r\nx: a\x00b\r\n",
        b" host: n\r\n",
        b"h\xc3\xb6st: n\r\n",
    ],
)
def test_what_h11_refuses_stays_refused(headers: bytes) -> None:
    with pytest.raises(h11.RemoteProtocolError):
        read(b"POST /x HTTP/1.1\r\n" + headers + b"\r\n")


@pytest.mark.parametrize(
    "line",
    [
        b"GET /a /b HTTP/1.1",
        b"GET  /a HTTP/1.1",
        b"GET\t/a HTTP/1.1",
        b"GET /a\rb HTTP/1.1",
        b"GET /\xc3\xa4 HTTP/1.1",
        b"G(T / HTTP/1.1",
        b"GET /a",
        b"GET /a http/1.1",
        b" GET / HTTP/1.1",
        b"GET / HTTP/1.1 ",
        b"\x16\x03\x01",
    ],
)
def test_a_line_that_is_no_requests_is_refused(line: bytes) -> None:
    with pytest.raises(h11.RemoteProtocolError):
        read(line + b"\r\nhost: n\r\n\r\n")


def test_a_line_that_goes_on_belongs_to_its_header_and_begins_none() -> None:
    headers = read(b"GET / HTTP/1.1\r\nhost: n\r\nx: a\r\n content-length: 3\r\n\r\n").headers

    assert {"host": "n", "x": "a content-length: 3"} == headers


def test_the_values_of_one_name_are_joined_in_their_order() -> None:
    assert "a, b, c" == read(b"GET / HTTP/1.1\r\nhost: n\r\nX: a\r\nx: b, c\r\n\r\n").headers["x"]


# ---- size ----


@pytest.mark.parametrize("count", [HEADERS_MAX - 1, HEADERS_MAX])
def test_so_many_headers_are_read_and_no_more(count: int) -> None:
    raw = b"GET / HTTP/1.1\r\nhost: n\r\n" + b"a:\r\n" * count + b"\r\n"
    if count < HEADERS_MAX:
        assert 2 == len(read(raw).headers)
        return
    with pytest.raises(NotServed) as refused:
        read(raw)
    assert 431 == refused.value.status


def test_headers_are_weighed_with_the_target() -> None:
    raw = b"GET /" + b"x" * 50 + b" HTTP/1.1\r\nhost: n\r\n\r\n"

    assert read(raw, 56)
    with pytest.raises(NotServed) as refused:
        read(raw, 55)
    assert 431 == refused.value.status


@pytest.mark.parametrize(
    ("target", "size_max"),
    [("/%61", PATH_BYTES_MAX), ("http://n/%61", PATH_BYTES_MAX + 8), ("/?a=%61", QUERY_BYTES_MAX + 2)],
)
def test_a_target_is_only_so_long(target: str, size_max: int) -> None:
    longest = target + "x" * (size_max - len(target))

    assert "GET" == asked(longest).method
    with pytest.raises(NotServed) as refused:
        asked(longest + "x")
    assert 414 == refused.value.status


# ---- another protocol ----


@pytest.mark.parametrize(
    ("wanted", "connection", "upgrade"),
    [
        ("spdy/3.1", "Upgrade", "SPDY/3.1"),
        ("websocket", "keep-alive, Upgrade", "websocket"),
        ("", "keep-alive", "websocket"),
        ("", "no-upgrade", "websocket"),
        ("", "upgrades, xupgrade", "websocket"),
        ("", "Upgrade", ""),
    ],
)
def test_another_protocol_is_wanted_by_both_headers_together(wanted: str, connection: str, upgrade: str) -> None:
    said = f"GET / HTTP/1.1\r\nhost: n\r\nconnection: {connection}\r\nupgrade: {upgrade}\r\n\r\n"

    assert wanted == read(said.encode()).upgrade


def test_an_old_client_wants_no_other_protocol() -> None:
    assert "" == read(b"GET / HTTP/1.0\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n").upgrade
