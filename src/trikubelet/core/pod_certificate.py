"""Reads the outcome of a PodCertificateRequest: pending, a certificate, or a rejection.

``kube.pod_certificates`` creates and watches the requests. Field names are the API's (certificates.k8s.io/v1,
KEP-4317), texts are upstream's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from trikubelet.core.timestamps import SECOND_NS, parse_rfc3339
from trikubelet.core.x509 import certificate_blocks, pem_of

_REFUSALS: Final = {"Denied": "denied", "Failed": "failed"}
_ISSUED: Final = "Issued"


class Condition(msgspec.Struct, frozen=True):
    """One of a request's conditions."""

    type: str
    reason: str = ""
    message: str = ""


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """The signer's answer. Times are RFC 3339."""

    conditions: tuple[Condition, ...] = ()
    certificate_chain: str = ""
    not_before: str = ""
    begin_refresh_at: str = ""
    not_after: str = ""


class Request(msgspec.Struct, frozen=True):
    """A request; only the fields that are read here."""

    status: Status = Status()


@dataclass(frozen=True, slots=True)
class Issued:
    """A chain of certificates in PEM, how long after its creation it need not be refreshed, and how long it is
    valid."""

    chain: bytes
    fresh_seconds: float
    life_seconds: float


@dataclass(frozen=True, slots=True)
class Refused:
    """The signer permanently rejected the request. ``reason`` is that of an event."""

    reason: str
    why: str


def outcome(request: Request) -> Issued | Refused | None:
    """Return the outcome; None while it is pending. Raises ValueError for an unreadable time or certificate."""
    status = request.status
    for one in status.conditions:
        if one.type in _REFUSALS:
            return Refused(
                one.type,
                f"PodCertificateRequest was permanently {_REFUSALS[one.type]}: "
                f'reason="{one.reason}" message="{one.message}"',
            )
        if one.type == _ISSUED:
            chain = b"".join(map(pem_of, certificate_blocks(status.certificate_chain.encode())))
            began = parse_rfc3339(status.not_before)
            fresh, life = (parse_rfc3339(end) - began for end in (status.begin_refresh_at, status.not_after))
            return Issued(chain, fresh / SECOND_NS, life / SECOND_NS)
    return None
