"""Decides if a pod may use an image that is already on the node, or must prove its right to it.

    image there ─► must_prove? ─no─► use it
                       └─yes─► proven by the image's record and the pod's credentials? ─yes─► use it
                                   └─no─► pull it again with the pod's credentials; then record that (``with_proof``)

Otherwise a pod could use any image that another pod of the node was allowed to pull. The rules are upstream's
(pkg/kubelet/images/pullmanager).
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from trikubelet.core.image_names import repository, untagged
from trikubelet.model.frozen import Frozen
from trikubelet.model.pull_records import PullAccount, PulledRecord, PullProofs, PullSecret
from trikubelet.model.registry import AccountOwner, SecretOwner

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.model.registry import Credential, Login

PROOFS_KEPT_MAX: Final = 100
"""The limit of Secrets, and of service accounts, in the record of one image; the oldest is dropped. A pod whose proof
is dropped pulls once more."""
_NOTHING: Final = PullProofs()
_EVERYBODY: Final = PullProofs(node_pods_accessible=True)


class VerificationPolicy(Frozen):
    """``imagePullCredentialsVerificationPolicy``, and the images that it exempts: names, or ``place/*``."""

    name: str = "NeverVerifyPreloadedImages"
    allowed: tuple[str, ...] = ()

    def must_prove(self, image: str, *, pulled_by_us: bool) -> bool:
        """True if a pod must prove its right to an image that is there."""
        if self.name == "NeverVerifyPreloadedImages":
            return pulled_by_us
        if self.name == "NeverVerifyAllowlistedImages":
            return not self._is_allowed(repository(image))
        return self.name != "NeverVerify"

    def _is_allowed(self, name: str) -> bool:
        return any(name.startswith(one[:-1]) if one.endswith("/*") else name == repository(one) for one in self.allowed)


def allowlist_problem(pattern: str) -> str:
    """Return why a pattern is invalid in the allowlist; "" if it is valid."""
    name = pattern.removesuffix("/*")
    if name != name.strip() or not name or "*" in name:
        return "must be an image's name, or a registry or the beginning of a path with /* at its end"
    if name != pattern:
        return ""
    try:
        return "" if untagged(name) == name else "must have neither tag nor digest"
    except ValueError as error:
        return str(error)


def proof_of(record: PulledRecord | None, image: str, credentials: Iterable[Credential]) -> PullProofs | None:
    """Return the proofs in the image's record that match a pod's credentials, with new facts added; None if none
    match."""
    known = record.credential_mapping.get(untagged(image)) if record is not None else None
    if known is None:
        return None
    if known.node_pods_accessible:
        return known
    for credential in credentials:
        match credential.owner:
            case SecretOwner() as owner:
                mine = _secret(owner, credential.login)
                if any(_is_login_or_secret(one, mine) for one in known.kubernetes_secrets):
                    return _added(known, mine)
            case AccountOwner() as owner:
                if _account(owner) in known.kubernetes_service_accounts:
                    return known
    return None


def with_proof(
    record: PulledRecord | None, image: str, image_ref: str, credential: Credential | None, now: str
) -> PulledRecord:
    """Return the record of an image that was just pulled with that credential. With None it was pulled without one, so
    every pod may use it. ``now`` is in RFC 3339."""
    record = record or PulledRecord(image_ref=image_ref, last_updated_time=now)
    known = record.credential_mapping.get(untagged(image), _NOTHING)
    return with_proofs(record, image, _with(known, credential), now)


def _with(known: PullProofs, credential: Credential | None) -> PullProofs:
    owner = None if credential is None or known.node_pods_accessible else credential.owner
    if credential is None or owner is None:
        return _EVERYBODY
    if isinstance(owner, SecretOwner):
        return _added(known, _secret(owner, credential.login))
    mine = _account(owner)
    if mine in known.kubernetes_service_accounts:
        return known
    return replace(known, kubernetes_service_accounts=(*known.kubernetes_service_accounts, mine)[-PROOFS_KEPT_MAX:])


def with_proofs(record: PulledRecord, image: str, proofs: PullProofs, now: str) -> PulledRecord:
    """Return the record with these proofs for the image's name."""
    mapping = {**record.credential_mapping, untagged(image): proofs}
    return (
        record
        if mapping == record.credential_mapping
        else replace(record, credential_mapping=mapping, last_updated_time=now)
    )


def _added(known: PullProofs, mine: PullSecret) -> PullProofs:
    if mine in known.kubernetes_secrets:
        return known
    others = tuple(one for one in known.kubernetes_secrets if not _is_same(one, mine))
    return replace(known, kubernetes_secrets=(*others, mine)[-PROOFS_KEPT_MAX:])


def _is_login_or_secret(one: PullSecret, other: PullSecret) -> bool:
    return one.credential_hash == other.credential_hash or _is_same(one, other)


def _is_same(one: PullSecret, other: PullSecret) -> bool:
    """True if both are the same Secret, whatever its content. Unknown, thus False, for Secrets in manifests."""
    return bool(one.uid) and (one.uid, one.namespace, one.name) == (other.uid, other.namespace, other.name)


def _account(owner: AccountOwner) -> PullAccount:
    return PullAccount(uid=owner.uid, namespace=owner.namespace, name=owner.name)


def _secret(owner: SecretOwner, login: Login) -> PullSecret:
    digest = sha256(json.dumps([login.username, login.password]).encode()).hexdigest()
    return PullSecret(uid=owner.uid, namespace=owner.namespace, name=owner.name, credential_hash=digest)
