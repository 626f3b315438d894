"""The release of Kubernetes that the node reports (``status.nodeInfo.kubeletVersion``).

Other components read it to know what a node can do, and kubeadm refuses a kubelet of a newer minor version than the
control plane's. The agent works with older API servers too, so it does not report more than the server is.
"""

from __future__ import annotations

import re
from typing import Final

from trikubelet.model.upstream import minor_of

_RELEASE: Final = re.compile(r"v?(\d+\.\d+\.\d+)")


def reported_release(*, followed: str, chosen: str, server: str) -> str:
    """The release to report, like ``v1.37.2``. ``chosen``: by the package or the operator, and then nothing else
    counts; ``server``: the API server's version as it states it, "" while it is not known."""
    if chosen:
        return chosen
    try:
        is_older = minor_of(server) < minor_of(followed)
    except ValueError:  # not known, or a server that states no version of Kubernetes
        return followed
    return _release_of(server) if is_older else followed


def _release_of(server: str) -> str:
    """``v1.36.3`` of ``v1.36.3-eks-1a2b3c``, because what a distributor appends is about the server's build."""
    found = _RELEASE.match(server)
    return f"v{found[1]}" if found else f"v{minor_of(server)}.0"
