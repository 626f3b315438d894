"""Chooses the client certificate that a node presents: the one it renews itself, or the kubeconfig's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.timestamps import SECOND_NS

if TYPE_CHECKING:
    from trikubelet.model.certificates import Certificate

BACKDATED_SECONDS: Final = 600
"""The most that a certificate may begin before it was issued: kube-controller-manager backdates it by five minutes, and
clocks differ."""


def shows_own(own: Certificate, given: Certificate | None, common_name: str, now_ns: int) -> bool:
    """True if the node presents its own certificate: it is this node's (``common_name``), it has not expired, and the
    kubeconfig's (``given``) has expired or was not issued later.

    Upstream presents its own until that expires. But a newer kubeconfig was put there since, for example because the
    cluster was created anew and does not know the certificate of the old one."""
    if own.common_name != common_name or own.has_expired(now_ns):
        return False
    issued_ns = own.not_before_ns + BACKDATED_SECONDS * SECOND_NS
    return given is None or given.has_expired(now_ns) or issued_ns >= given.not_before_ns


def counts_as_held(own: Certificate, given: Certificate | None, common_name: str, now_ns: int) -> bool:
    """True if the next certificate is due when this one expires. An unexpired one that the node does not present must
    be replaced at once."""
    return own.has_expired(now_ns) or shows_own(own, given, common_name, now_ns)
