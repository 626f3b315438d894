"""Requests the signing of a certificate from the cluster, and waits for the decision.

    create the request, or find the one of this key ─► watch it ─► approved and signed: the certificate
                                                              └──► denied, failed, gone, 15 minutes: CertificateRefused

Only the key on the disk is kept between two calls: another call with the same key finds the same request.
"""

from __future__ import annotations

import base64
import logging
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.kit.backoff import Backoff
from trikubelet.model import k8s
from trikubelet.model.api import SIGNING_REQUESTS, ChangeKind, Selection
from trikubelet.model.api_errors import Expired, ObjectExists, ObjectMissing
from trikubelet.model.certificates import CertificateRefused
from trikubelet.model.decoding import read_item

if TYPE_CHECKING:
    from trikubelet.model.api import Item
    from trikubelet.model.certificates import SigningRequest
    from trikubelet.ports import Api

log = logging.getLogger(__name__)

DECISION_SECONDS_MAX: Final = 15 * 60.0
"""Upstream's limit; then the request is given up and recreated."""

USAGES: Final = {
    "kubernetes.io/kube-apiserver-client-kubelet": ("digital signature", "client auth"),
    "kubernetes.io/kubelet-serving": ("digital signature", "server auth"),
}
"""The usages of a key on an elliptic curve, by signer."""

WATCH_SECONDS_MAX: Final = 90.0
"""A watch whose connection is dead looks like a silent one. So the request is read again after this time."""

_ADVICE: Final = {
    "Denied": "the approver rejects this node as it is: see kubectl describe csr {0}, fix "
    "the reason, and approve the next request; this agent makes new ones with backoff",
    "Failed": "the signer could not sign it: see kubectl describe csr {0} and the log of kube-controller-manager; "
    "this agent requests again with backoff",
}
"""The remedies for the conditions that end a request without a certificate."""


async def sign(api: Api, request: SigningRequest, signer: str) -> bytes:
    """Return the signed certificate in PEM. Raises CertificateRefused, and ApiError if the server cannot be reached."""
    name = await _ask(api, request, signer)
    log.info(
        "Certificate request %s for signer %s waits for a decision; unless the cluster decides by itself, "
        "give it with: kubectl certificate approve %s",
        name,
        signer,
        name,
    )
    with trio.move_on_after(DECISION_SECONDS_MAX):
        return await _await_decision(api, name)
    raise CertificateRefused(
        f"certificate request {name}: neither approved nor denied within {DECISION_SECONDS_MAX / 60:g} minutes; "
        f"look at it with: kubectl describe csr {name}"
    )


async def _ask(api: Api, request: SigningRequest, signer: str) -> str:
    body = k8s.CertificateSigningRequest(
        api_version=SIGNING_REQUESTS.api_version,
        kind=SIGNING_REQUESTS.kind,
        metadata=k8s.ObjectMeta(name=request.name),
        spec=k8s.CertificateSigningRequestSpec(
            request=base64.b64encode(request.pem).decode(), signer_name=signer, usages=USAGES[signer]
        ),
    )
    try:
        await api.create(SIGNING_REQUESTS, body)
    except ObjectExists:
        log.info("Certificate request %s was made by an earlier agent", request.name)
    return request.name


async def _await_decision(api: Api, name: str) -> bytes:
    backoff = Backoff(1.0, 30.0)
    while True:
        try:
            item = await api.get(SIGNING_REQUESTS, name)
        except ObjectMissing as error:
            raise _gone(name) from error
        if (certificate := _decision(item)) is not None:
            return certificate
        try:
            with trio.move_on_after(WATCH_SECONDS_MAX):
                if (found := await _decided(api, name, item.resource_version)) is not None:
                    return found
        except Expired:
            pass  # the request is read again
        # A proxy in between may end every watch at once.
        await trio.sleep(backoff.next_seconds())


async def _decided(api: Api, name: str, version: str) -> bytes | None:
    """Return the certificate, once a watch brings it; None if the watch ends before. Raises CertificateRefused, and
    ApiError."""
    selection = Selection(fields=f"metadata.name={name}")
    async with api.watch(SIGNING_REQUESTS, selection, resource_version=version) as changes:
        async for change in changes:
            if change.kind is ChangeKind.DELETED:
                raise _gone(name)
            if change.kind is not ChangeKind.BOOKMARK and (found := _decision(change.item)) is not None:
                return found
    return None


def _decision(item: Item) -> bytes | None:
    """Return the certificate; None while it is undecided or unsigned. Raises CertificateRefused, and ApiFailure for an
    invalid request object."""
    request = read_item(item, k8s.CertificateSigningRequest)
    status = request.status or k8s.CertificateSigningRequestStatus()
    for condition in status.conditions:
        if condition.type in _ADVICE:
            why = ": ".join(filter(None, (condition.reason, condition.message))) or "no reason given"
            said = f"certificate request {item.name} was {condition.type.lower()}: {why}"
            raise CertificateRefused(f"{said}; {_ADVICE[condition.type].format(item.name)}")
    try:
        return base64.b64decode(status.certificate, validate=True) or None
    except ValueError as error:
        raise CertificateRefused(f"certificate request {item.name} was answered with no base64: {error}") from error


def _gone(name: str) -> CertificateRefused:
    return CertificateRefused(f"certificate request {name} was deleted before a decision")
