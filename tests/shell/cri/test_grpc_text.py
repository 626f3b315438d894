"""What gRPC writes into bytes and headers, and the seam of statuses: pure functions and small state machines."""

import pytest
from grpclib.const import Status
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.cri.endpoint import connect_failure, endpoint_at, socket_path
from trikubelet.cri.errors import error_for, status_for
from trikubelet.cri.goaway import TEXT_BYTES_MAX, GoAway, goaway_bytes
from trikubelet.cri.headers import decode_message, decode_timeout, encode_message, encode_timeout
from trikubelet.model.runtime_errors import (
    AlreadyExists,
    InvalidArgument,
    MessageTooLarge,
    NoCriService,
    NotFound,
    NotImplementedByRuntime,
    ResourceExhausted,
    RuntimeFailure,
    RuntimeTimeout,
    RuntimeUnavailable,
)


def test_a_goaway_says_why() -> None:
    goaway = GoAway.read(bytes([0x80, 0, 0, 7, 0, 0, 0, 11]) + b"too_many_pings")

    assert GoAway(7, 11, "too_many_pings") == goaway
    assert "received GOAWAY (ENHANCE_YOUR_CALM: too_many_pings)" == str(goaway)
    assert "received GOAWAY (77)" == str(GoAway(0, 77, ""))
    assert GoAway(9, 0, "x" * TEXT_BYTES_MAX) == GoAway.read(bytes([0, 0, 0, 9, 0, 0, 0, 0]) + b"x" * 5000)
    assert GoAway(9, 0, "") == GoAway.read(goaway_bytes(9)[9:])


@given(st.floats(0, 1e12))
def test_a_deadline_is_never_sent_too_short_and_hardly_too_long(seconds: float) -> None:
    text = encode_timeout(seconds)

    assert len(text) <= 9
    assert seconds <= decode_timeout(text) * (1 + 1e-9) or text == "99999999H"
    if seconds <= 99_999_999:
        assert decode_timeout(text) <= seconds * 1.001 + 1e-3


@pytest.mark.parametrize("text", ["", "S", "5", "-5S", "1.5S", "5s", "123456789S", "\u0665S"])
def test_a_deadline_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="grpc-timeout"):
        decode_timeout(text)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_an_error_text_survives_the_header(text: str) -> None:
    encoded = encode_message(text)

    assert encoded.isascii()
    assert all(" " <= char <= "~" for char in encoded)
    assert encoded == encoded.strip(" ")
    assert text == decode_message(encoded)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (Status.UNAVAILABLE, RuntimeUnavailable),
        (Status.DEADLINE_EXCEEDED, RuntimeTimeout),
        (Status.NOT_FOUND, NotFound),
        (Status.ALREADY_EXISTS, AlreadyExists),
        (Status.INVALID_ARGUMENT, InvalidArgument),
        (Status.UNIMPLEMENTED, NotImplementedByRuntime),
        (Status.RESOURCE_EXHAUSTED, ResourceExhausted),
        (Status.UNKNOWN, RuntimeFailure),
        (Status.INTERNAL, RuntimeFailure),
        (Status.FAILED_PRECONDITION, RuntimeFailure),
    ],
)
def test_each_status_is_one_decision_and_goes_back_as_itself(status: Status, error: type) -> None:
    found = error_for(status.value, "the runtime's own words")

    assert error is type(found)
    assert "the runtime's own words" == str(found)
    assert (status, "the runtime's own words") == status_for(found)


def test_out_of_range_is_an_argument_that_will_never_do() -> None:
    assert type(error_for(Status.OUT_OF_RANGE.value, "words")) is InvalidArgument


def test_a_failure_keeps_its_code() -> None:
    failure = error_for(13, "boom")

    assert isinstance(failure, RuntimeFailure)
    assert "INTERNAL" == failure.code
    assert "42" == getattr(error_for(42, "boom"), "code", None)


@pytest.mark.parametrize(
    "words",
    [
        "grpc: trying to send message larger than max (16800000 vs. 16777216)",
        "grpc: received message larger than max (16800000 vs. 16777216)",
        str(status_for(MessageTooLarge("2 bytes"))[1]),
    ],
)
def test_a_message_too_large_for_the_runtime_is_known_by_its_text(words: str) -> None:
    assert type(error_for(Status.RESOURCE_EXHAUSTED.value, words)) is MessageTooLarge


def test_a_server_without_the_cri_is_told_apart_from_one_without_a_method() -> None:
    unimplemented = Status.UNIMPLEMENTED.value
    without = [error_for(unimplemented, f"unknown service runtime.v1.{one}Service") for one in ("Runtime", "Image")]
    lacking = error_for(unimplemented, "unknown method RuntimeConfig for service runtime.v1.RuntimeService")

    assert [NoCriService, NoCriService, NotImplementedByRuntime] == [type(one) for one in (*without, lacking)]
    assert "disabled_plugins = []" in str(without[0])


@pytest.mark.parametrize(
    ("endpoint", "path"),
    [
        ("unix:///run/containerd/containerd.sock", "/run/containerd/containerd.sock"),
        ("unix:/run/crio/crio.sock", "/run/crio/crio.sock"),
        ("/run/x.sock", "/run/x.sock"),
        ("/run/a:b.sock", "/run/a:b.sock"),
    ],
)
def test_an_endpoint_is_a_path_or_a_unix_url(endpoint: str, path: str) -> None:
    assert path == socket_path(endpoint)


@pytest.mark.parametrize(
    "path", ["/run/x.sock", "/data/50%20full/x.sock", "/a%25/é #?/x:y.sock", "//x.sock", "/\udcff.sock"]
)
def test_the_endpoint_made_of_a_path_leads_back_to_it(path: str) -> None:
    assert path == socket_path(endpoint_at(path))


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ("tcp://127.0.0.1:99", "only Unix sockets"),
        ("run/x.sock", "must be absolute"),
        ("unix://run/x.sock", "must be absolute"),
        ("", "must be absolute"),
        ("/" + "x" * 107, "longer than the 107 bytes"),
        ("/" + "é" * 54, "longer than the 107 bytes"),
    ],
)
def test_an_impossible_endpoint_is_refused_with_a_remedy(endpoint: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        socket_path(endpoint)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FileNotFoundError(), "no socket at /x"),
        (ConnectionRefusedError(), "no process listens at /x"),
        (PermissionError(), "no permission for /x"),
        (BlockingIOError(11, "its queue is full"), "cannot connect to /x: its queue is full"),
        (OSError(24, "Too many open files"), "Too many open files"),
    ],
)
def test_a_failed_connect_is_put_into_words(error: OSError, words: str) -> None:
    assert words in connect_failure("/x", error)
