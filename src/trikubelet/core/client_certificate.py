"""Which client certificate a node shows: the one it renews itself, or the kubeconfig's, which is there before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.timestamps import SECOND_NS

if TYPE_CHECKING:
    from trikubelet.model.certificates import Certificate

BACKDATED_SECONDS: Final = 600
"""A certificate may begin so long before it was issued: kube-controller-manager has it begin five minutes before, and
clocks differ."""


def shows_own(own: Certificate, given: Certificate | None, common_name: str, now_ns: int) -> bool:
    """Whether the node's own certificate is shown: while it lasts, if it is this node's (``common_name``), unless the
    kubeconfig's (``given``) was issued later and lasts, too.

    Upstream shows its own whenever that has not expired. But a kubeconfig that is newer was put there since, as for a
    cluster that was made again, which does not know the certificate of the old one."""
    if own.common_name != common_name or own.has_expired(now_ns):
        return False
    issued_ns = own.not_before_ns + BACKDATED_SECONDS * SECOND_NS
    return given is None or given.has_expired(now_ns) or issued_ns >= given.not_before_ns


def counts_as_held(own: Certificate, given: Certificate | None, common_name: str, now_ns: int) -> bool:
    """Whether the next certificate is asked for by when this one ends, as it is shown; one that is not, and has not
    ended, is as good as none."""
    return own.has_expired(now_ns) or shows_own(own, given, common_name, now_ns)
