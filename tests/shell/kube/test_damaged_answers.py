"""Whatever a server sends, what comes of it is an error of the API's: anything else would end the agent."""

from __future__ import annotations

import pytest

from trikubelet.kube.errors import error_of_answer
from trikubelet.kube.items import change_of, item_of, page_of
from trikubelet.model.api_errors import ApiBusy, ApiError, ApiFailure

DEEP = b"[" * 200_000 + b"]" * 200_000
DAMAGED = [
    pytest.param(b'{"metadata":{"name":"\xff\xfe","resourceVersion":"1"}}', id="bytes that are no UTF-8"),
    pytest.param(b'{"metadata":{"name":"a","resourceVersion":"1"},"spec":' + DEEP + b"}", id="nesting without end"),
    pytest.param(b'{"metadata":{"name":7,"resourceVersion":"1"}}', id="another type"),
]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_object_is_a_failure(text: bytes) -> None:
    with pytest.raises(ApiFailure):
        item_of(text)


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_list_is_a_failure(text: bytes) -> None:
    with pytest.raises(ApiFailure):
        list(page_of(b'{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[' + text + b"]}").items)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b'{"kind":"Status","metadata":{},"status":"Success"}', id="a Status"),
        pytest.param(b'{"kind":"Status","metadata":{"resourceVersion":"5"},"status":"Success"}', id="of a version"),
        pytest.param(b'{"kind":"Pod","metadata":{"name":"a","resourceVersion":"5"}}', id="another kind"),
        pytest.param(b'{"metadata":{"resourceVersion":"5"},"items":[]}', id="no kind"),
        pytest.param(b'{"kind":"PodList","metadata":{},"items":[]}', id="no version"),
        pytest.param(b'{"metadata":{}}', id="nothing"),
    ],
)
def test_what_is_no_list_is_a_failure_and_no_empty_list(text: bytes) -> None:
    with pytest.raises(ApiFailure, match="is not a list"):
        page_of(text)


def test_a_status_is_a_failure_and_no_object() -> None:
    with pytest.raises(ApiFailure, match="is not an object: it is a Status: all is well"):
        item_of(b'{"kind":"Status","metadata":{},"status":"Success","message":"all is well"}')


@pytest.mark.parametrize("kind", [b"ADDED", b"BOOKMARK"])
@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_change_is_a_failure(kind: bytes, text: bytes) -> None:
    with pytest.raises(ApiFailure):
        change_of(b'{"type":"' + kind + b'","object":' + text + b"}")


@pytest.mark.parametrize("kind", [b"ADDED", b"DELETED", b"BOOKMARK"])
def test_a_change_without_a_version_is_a_failure(kind: bytes) -> None:
    with pytest.raises(ApiFailure, match="has no version"):
        change_of(b'{"type":"' + kind + b'","object":{"metadata":{"name":"a"}}}')


@pytest.mark.parametrize("version", [b"18446744073709551616", b"1" + b"0" * 40, b"9" * 5000])
def test_a_version_of_more_than_64_bits_is_a_failure(version: bytes) -> None:
    item = b'{"metadata":{"name":"a","resourceVersion":"' + version + b'"}}'
    with pytest.raises(ApiFailure, match=r"impossible version: [0-9]{20,50}$"):
        change_of(b'{"type":"BOOKMARK","object":' + item + b"}")
    with pytest.raises(ApiFailure, match="impossible version"):
        page_of(b'{"kind":"PodList","metadata":{"resourceVersion":"' + version + b'"},"items":[]}')


@pytest.mark.parametrize("version", ["18446744073709551615", "7", "opaque"])
def test_any_other_version_is_taken(version: str) -> None:
    assert version == item_of(f'{{"metadata":{{"name":"a","resourceVersion":"{version}"}}}}'.encode()).resource_version


@pytest.mark.parametrize("member", [b'"message":"\xff"', b'"x":' + DEEP, b'"code":' + b"9" * 5000, b'"details":7'])
@pytest.mark.parametrize("code", [404, 429, 500])
def test_a_damaged_status_is_an_error_all_the_same(code: int, member: bytes) -> None:
    assert isinstance(error_of_answer(code, {}, b'{"kind":"Status",' + member + b"}"), ApiError)


@pytest.mark.parametrize(
    ("headers", "details"), [({}, b"9" * 400), ({"retry-after": "9" * 400}, b"0"), ({"retry-after": "9" * 5000}, b"0")]
)
def test_excessive_retry_after_counts_as_a_day(headers: dict[str, str], details: bytes) -> None:
    found = error_of_answer(429, headers, b'{"kind":"Status","details":{"retryAfterSeconds":' + details + b"}}")

    assert isinstance(found, ApiBusy)
    assert 24 * 3600 == found.after
