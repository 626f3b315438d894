"""Trust anchors that pods mount: a projected source's selection of a cluster's ClusterTrustBundles.

A source names one bundle, or a signer and labels, and gets a file of all certificates in the selection, each once.
Upstream leaves their order open; here it is always the same, so that a file changes only when its certificates do.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from trikubelet.core.admission.affinity import holds
from trikubelet.core.x509 import certificate_blocks, pem_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.core.containers.volume_files import Contents
    from trikubelet.model import k8s


def trust_anchors(
    source: k8s.ClusterTrustBundleProjection, bundles: Iterable[k8s.ClusterTrustBundle], contents: Contents
) -> bytes:
    """Return the file in PEM; empty if nothing is selected and the source is optional. ``contents``: those of the
    volume. Raises ValueError if nothing is selected and the source is not optional, and for an unreadable bundle."""
    picked = [one for one in bundles if _is_picked(source, one)]
    if not picked and not source.optional:
        raise ValueError(
            f'clustertrustbundles.certificates.k8s.io "{source.name}" not found'
            if source.name
            else "combination of signerName and labelSelector matched zero ClusterTrustBundles"
        )
    # Each bundle is reduced to unique certificates first, because it may hold one thousands of times. One bundle needs
    # no more.
    alone = [contents.once(one, "trustBundle", partial(_anchors, one.spec.trust_bundle.encode())) for one in picked]
    return alone[0] if len(alone) == 1 else _anchors(b"".join(alone))


def _anchors(pem: bytes) -> bytes:
    return b"".join(map(pem_of, sorted(set(certificate_blocks(pem)))))


def _is_picked(source: k8s.ClusterTrustBundleProjection, bundle: k8s.ClusterTrustBundle) -> bool:
    if source.name:
        return bundle.metadata.name == source.name
    selector = source.label_selector
    if selector is None or bundle.spec.signer_name != source.signer_name:
        return False  # no selector selects nothing, an empty one selects all
    labels = bundle.metadata.labels
    asked = all(labels.get(key) == value for key, value in selector.match_labels.items())
    return asked and all(holds(requirement, labels) for requirement in selector.match_expressions)
