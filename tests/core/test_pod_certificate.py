"""What has become of a request for a pod's certificate."""

from __future__ import annotations

import pytest

from trikubelet.core.pod_certificate import Condition, Issued, Refused, Request, Status, outcome

BLOCK = b"-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\n"


def request(*conditions: str, chain: bytes = BLOCK, refresh: str = "2026-01-01T01:00:00Z") -> Request:
    said = tuple(Condition(type_, "Because", "so") for type_ in conditions)
    return Request(Status(said, chain.decode(), "2026-01-01T00:00:00Z", refresh, "2026-01-01T02:00:00Z"))


@pytest.mark.parametrize(
    ("expected", "asked"),
    [
        (None, Request()),
        (None, request("Somebody's")),
        (Issued(BLOCK, 3600, 7200), request("Issued")),
        (Issued(BLOCK * 2, 3600, 7200), request("Issued", chain=b"words\n" + BLOCK + b"more words\n" + BLOCK)),
        (
            Refused("Denied", 'PodCertificateRequest was permanently denied: reason="Because" message="so"'),
            request("Denied"),
        ),
        (
            Refused("Failed", 'PodCertificateRequest was permanently failed: reason="Because" message="so"'),
            request("Somebody's", "Failed"),
        ),
    ],
)
def test_a_request_is_answered_by_its_conditions(expected: object, asked: Request) -> None:
    assert expected == outcome(asked)


@pytest.mark.parametrize(
    "told", [request("Issued", refresh="soon"), request("Issued", chain=BLOCK.replace(b"AAEC", b"!!!!"))]
)
def test_an_answer_that_cannot_be_read_is_none(told: Request) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whichever
        outcome(told)
