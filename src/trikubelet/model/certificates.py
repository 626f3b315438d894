"""A certificate as far as its owner decides by it, and the request for one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import field

from trikubelet.model.frozen import Frozen
from trikubelet.model.names import canonical_ip

if TYPE_CHECKING:
    from collections.abc import Sequence

CLIENT_SIGNER: Final = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING_SIGNER: Final = "kubernetes.io/kubelet-serving"
SELF_SIGNED_NAMES: Final = ("kubelet.crt", "kubelet.key")
"""The files of a certificate that vouches for itself, and of its key, as upstream has them."""


class Certificate(Frozen):
    """One certificate with its key. Times are nanoseconds since the epoch; ``names`` are DNS names and addresses, the
    latter in their canonical form."""

    common_name: str
    organizations: tuple[str, ...]
    not_before_ns: int
    not_after_ns: int
    names: frozenset[str] = frozenset()

    def valid_at(self, now_ns: int) -> bool:
        """True if a peer whose clock is right accepts its dates."""
        return self.not_before_ns <= now_ns < self.not_after_ns

    def has_expired(self, now_ns: int) -> bool:
        """True if its end is past. One of our own that is not valid yet is no reason for another: a machine without a
        battery for its clock begins in the past, and it is the peer's clock that counts."""
        return now_ns >= self.not_after_ns


class Subject(Frozen):
    """The subject that a certificate is requested for. ``dns_names`` and ``addresses`` are what a serving certificate
    is valid for."""

    common_name: str
    organizations: tuple[str, ...] = ()
    dns_names: Sequence[str] = field(default=())
    addresses: Sequence[str] = field(default=())

    @property
    def names(self) -> frozenset[str]:
        """All names and addresses, as a certificate for them has them: there an address is four or sixteen bytes, in
        whichever way it was written."""
        return frozenset((*self.dns_names, *map(canonical_ip, self.addresses)))


def node_subject(node_name: str, dns_names: Sequence[str] = (), addresses: Sequence[str] = ()) -> Subject:
    """A node as the API server knows it: user ``system:node:<name>`` of the group ``system:nodes``."""
    return Subject(f"system:node:{node_name}", ("system:nodes",), tuple(dns_names), tuple(addresses))


class SigningRequest(Frozen):
    """A request for a certificate: PKCS #10 in PEM, and a name that is the same whenever the key is."""

    name: str
    pem: bytes


class CertificateRefused(Exception):
    """No certificate came of a request: it was denied, failed, or no signer decided in time. The message says which,
    and what an operator can do."""


class CertificateUnusable(Exception):
    """A certificate that was issued, or lies on the disk, is none or does not belong to its key."""


class KeyUnusable(CertificateUnusable):
    """The certificate is one, but the key is none, or another certificate's."""
