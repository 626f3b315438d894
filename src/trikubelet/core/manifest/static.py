"""The identity of a static pod on its node, its forbidden references, and its unusable values.

A static pod has no API server to name it. Its UID is a hash of the manifest's content and place, so that the same file
gives the same pod after a restart and a changed file gives another one (upstream: config/common.go). The hash is taken
before defaults are filled in, so that a newer agent with other defaults does not restart every static pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from trikubelet.core.field_path import item_path, member_path
from trikubelet.core.fnv import fnv1a_128
from trikubelet.core.names import CONFIG_HASH, CONFIG_MIRROR, CONFIG_SEEN, CONFIG_SOURCE
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trikubelet.model.k8s import Pod, Volume

LOCAL_ANNOTATIONS = frozenset({CONFIG_HASH, CONFIG_MIRROR, CONFIG_SEEN, CONFIG_SOURCE})
_STAY = k8s.Toleration(operator="Exists", effect="NoExecute")


def is_url(source: str) -> bool:
    """True if a source is a URL; otherwise it is a file's path."""
    return source.startswith(("http://", "https://"))


def static_pod(pod: Pod, source: str, node_name: str, seen: str) -> Pod:
    """Return the pod of a manifest from ``source`` as it is on the node. ``seen``: when it was read, in RFC 3339.

    A UID in the manifest is kept. The status and the deletion timestamp are dropped: ``kubectl get -o yaml`` writes
    both, and API servers drop both when they create an object.
    """
    meta = pod.metadata
    annotations = {key: value for key, value in meta.annotations.items() if key not in LOCAL_ANNOTATIONS}
    uid = meta.uid or _uid(replace(pod, metadata=replace(meta, annotations=annotations)), source, node_name)
    annotations |= {CONFIG_SOURCE: "http" if is_url(source) else "file", CONFIG_HASH: uid, CONFIG_SEEN: seen}
    identity = replace(
        meta,
        name=f"{meta.name}-{node_name.lower()}",
        namespace=meta.namespace or "default",
        uid=uid,
        annotations=annotations,
        deletion_timestamp="",
        deletion_grace_period_seconds=None,
    )
    spec = replace(pod.spec, node_name=node_name)
    if not is_url(source):
        # The operator of the node placed the file: no taint drives its pods out.
        others = tuple(one for one in spec.tolerations if not _same_target(one, _STAY))
        spec = replace(spec, tolerations=(*others, _STAY))
    status = k8s.PodStatus(phase="Pending")
    return replace(pod, api_version="v1", kind="Pod", metadata=identity, spec=spec, status=status)


def _same_target(a: k8s.Toleration, b: k8s.Toleration) -> bool:
    return (a.key, a.operator, a.value, a.effect) == (b.key, b.operator, b.value, b.effect)


def _uid(pod: Pod, source: str, node_name: str) -> str:
    said = msgspec.json.encode({"metadata": pod.metadata, "spec": pod.spec}, order="sorted")
    # A file's name is bytes, as upstream hashes it; bytes that are not UTF-8 are surrogates here.
    where = f"url:{source}" if is_url(source) else f"host:{node_name}file:{source}"
    return f"{fnv1a_128(said + where.encode(errors='surrogateescape')):032x}"


def api_references(pod: Pod) -> list[str]:
    """Return the field paths of everything in the pod that only an API server has: service accounts, trust bundles,
    claims. Without one such a pod could never start; with one, a file on a node would get access that was not granted
    to it (upstream: PreventStaticPodAPIReferences, which also forbids ConfigMaps and Secrets; here manifests may define
    those)."""
    spec = pod.spec
    paths = [f"spec.{field}" for field in ("serviceAccountName", "serviceAccount") if _of_account(spec, field)][:1]
    paths += [f"spec.resourceClaims[{n}]" for n in range(len(spec.resource_claims))]
    for n, volume in enumerate(spec.volumes):
        paths += _of_volume(volume, f"spec.volumes[{n}]")
    return paths


def null_characters(value: object, path: str) -> Iterator[str]:
    """Yield the field paths of the texts in ``value``, which is at ``path``, that have a null character. The kernel's
    texts end there, so no process and no file can be given one: the pod would wait forever."""
    if isinstance(value, str) and "\0" in value:
        yield path
    elif isinstance(value, list):
        for n, item in enumerate(value):
            yield from null_characters(item, item_path(path, n))
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from null_characters(item, member_path(path, name))


def _of_account(spec: k8s.PodSpec, field: str) -> bool:
    return bool(spec.service_account_name if field == "serviceAccountName" else spec.service_account)


def _of_volume(volume: Volume, path: str) -> Iterator[str]:
    held = {
        "persistentVolumeClaim": volume.persistent_volume_claim,
        "ephemeral": volume.ephemeral,
    }
    yield from (f"{path}.{field}" for field, source in held.items() if source is not None)
    for n, projection in enumerate(volume.projected.sources if volume.projected else ()):
        projected = {
            "serviceAccountToken": projection.service_account_token,
            "clusterTrustBundle": projection.cluster_trust_bundle,
            "podCertificate": projection.pod_certificate,
        }
        yield from (f"{path}.projected.sources[{n}].{field}" for field, source in projected.items() if source)
    for field in ("azureFile", "cephfs", "cinder", "csi", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos"):
        if _secret_of_driver(volume, field):
            yield f"{path}.{field}"


_DRIVERS = {"azureFile": "azure_file", "flexVolume": "flex_volume", "scaleIO": "scale_io"}


def _secret_of_driver(volume: Volume, field: str) -> bool:
    """True if a driver's volume needs a Secret."""
    source = getattr(volume, _DRIVERS.get(field, field))
    if source is None:
        return False
    secret = getattr(source, "secret_ref", None) or getattr(source, "node_publish_secret_ref", None)
    return secret is not None or bool(getattr(source, "secret_name", ""))
