"""A node's access to its cluster: certificates, and the rights of its user."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from trikubelet.core.timestamps import SECOND_NS, rfc3339
from trikubelet.model.finding import error, good, warning
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trikubelet.model.certificates import Certificate
    from trikubelet.model.finding import Finding

CERTIFICATE, RIGHTS_CHECK = "certificates", "API server"
SOON_SECONDS: Final = 7 * 24 * 3600
"""The least time left of a certificate that must be renewed by hand."""
SOON_SHARE: Final = 0.08
"""With a smaller share of its life left, a certificate that the agent renews has missed its rotation, which is due with
a tenth left at the latest (upstream's jitter: after 70 to 90 %)."""


class Renewal(Enum):
    """The way in which a certificate is renewed; the value is the remedy if that is late."""

    ASKED_FOR = "the agent asks for a new one: are its requests approved?"
    AT_START = "the agent makes a new one when it starts and this one has ended, or is removed with its key"
    BY_HAND = "renew it; a new file is enough"


class Right(Frozen):
    """One action of this node's user at the API server. ``name``: of a single object, ``{node}`` for this node's;
    ``own``: limited to this node's pods by a selector, which the node authorizer requires (upstream since 1.32)."""

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
"""The rights that the role system:node and the node authorizer grant."""


def judge_certificate(what: str, held: Certificate, now_ns: int, renewal: Renewal) -> Iterator[Finding]:
    """Judge the end of a certificate; ``what`` names it."""
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
    """Judge the rights. ``refused``: those of ``RIGHTS`` that this node's user does not have."""
    if not refused:
        yield good(RIGHTS_CHECK, f"{server} gives this node its rights")
        return
    remedy = "is its user system:node:<this node's name>, of the group system:nodes, and the Node authorizer on?"
    yield error(RIGHTS_CHECK, f"{server} does not let it {', '.join(map(str, refused))}", remedy)
