"""What a node has of its cluster: certificates, and the rights its user needs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from trikubelet.core.timestamps import SECOND_NS, rfc3339
from trikubelet.model.finding import error, good, warning

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trikubelet.model.certificates import Certificate
    from trikubelet.model.finding import Finding

CERTIFICATE, RIGHTS_CHECK = "certificates", "API server"
SOON_SECONDS: Final = 7 * 24 * 3600
"""Somebody has to renew a certificate by hand before it has less left than this."""
SOON_SHARE: Final = 0.08
"""One that the agent renews has missed its rotation with less of its life left: that comes with a tenth at the latest
(upstream's jitter: after 70 to 90 %)."""


class Renewal(Enum):
    """Who sees to it that a certificate is followed by another; the value is what to do when that is late."""

    ASKED_FOR = "the agent asks for a new one: are its requests approved?"
    AT_START = "the agent makes a new one when it starts and this one has ended, or is removed with its key"
    BY_HAND = "renew it; a new file is enough"


@dataclass(frozen=True, slots=True)
class Right:
    """One thing this node's user does at the API server. ``name``: of the one object, ``{node}`` for this node's;
    ``own``: only with the pods of this node, which the node authorizer wants to be said (upstream since 1.32)."""

    verb: str
    resource: str
    group: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    own: bool = False

    def __str__(self) -> str:
        what = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return f"{self.verb} {what}"


RIGHTS: Final = (
    Right("get", "nodes", name="{node}"),
    Right("patch", "nodes", subresource="status", name="{node}"),
    Right("update", "leases", "coordination.k8s.io", namespace="kube-node-lease", name="{node}"),
    Right("list", "pods", own=True),
    Right("create", "events"),
    Right("create", "certificatesigningrequests", "certificates.k8s.io"),
    Right("create", "tokenreviews", "authentication.k8s.io"),
    Right("create", "subjectaccessreviews", "authorization.k8s.io"),
)
"""What the role system:node and the node authorizer give."""


def judge_certificate(what: str, held: Certificate, now_ns: int, renewal: Renewal) -> Iterator[Finding]:
    """``what`` names the certificate."""
    rotates, remedy = renewal is Renewal.ASKED_FOR, renewal.value
    ends, left = rfc3339(held.not_after_ns), held.not_after_ns - now_ns
    soon = SOON_SHARE * (held.not_after_ns - held.not_before_ns) if rotates else SOON_SECONDS * SECOND_NS
    if left <= 0:
        yield error(CERTIFICATE, f"{what} ended on {ends}", remedy)
    elif left < soon:
        yield warning(CERTIFICATE, f"{what} ends on {ends}", remedy)
    else:
        yield good(CERTIFICATE, f"{what} is good until {ends}")


def judge_rights(server: str, refused: Sequence[Right]) -> Iterator[Finding]:
    """``refused``: those of ``RIGHTS`` that this node's user does not have."""
    if not refused:
        yield good(RIGHTS_CHECK, f"{server} gives this node its rights")
        return
    remedy = "is its user system:node:<this node's name>, of the group system:nodes, and the Node authorizer on?"
    yield error(RIGHTS_CHECK, f"{server} does not let it {', '.join(map(str, refused))}", remedy)
