"""The release of Kubernetes that the node reports (``status.nodeInfo.kubeletVersion``).

Other components read it to learn the node's abilities, and kubeadm rejects a kubelet of a newer minor version than the
control plane's. The agent works with older API servers too, so it reports no newer version than the server's.
"""

from __future__ import annotations

import re
from typing import Final

from trikubelet.model.upstream import minor_of

_RELEASE: Final = re.compile(r"v?(\d+\.\d+\.\d+)")


def reported_release(*, followed: str, chosen: str, server: str) -> str:
    """Return the release to report, like ``v1.37.2``. ``chosen``: by the package or the operator, which overrides all
    else; ``server``: the API server's version in its own notation, "" while unknown."""
    if chosen:
        return chosen
    try:
        is_older = minor_of(server) < minor_of(followed)
    except ValueError:  # unknown, or a server without a version of Kubernetes
        return followed
    return _release_of(server) if is_older else followed


def _release_of(server: str) -> str:
    """Return ``v1.36.3`` for ``v1.36.3-eks-1a2b3c``, because a distributor's suffix describes the server's build."""
    found = _RELEASE.match(server)
    return f"v{found[1]}" if found else f"v{minor_of(server)}.0"
