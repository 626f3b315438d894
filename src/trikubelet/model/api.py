"""The data exchanged with an API server, without the transport: kinds of objects, selections, items, changes.

An ``Item`` carries its object undecoded. A holder of many of them compares ``uid`` and ``resource_version`` and decodes
only what is new to it: a node that lists its pods again after a lost watch decodes none of them when none has changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object an API server serves. ``group`` is "" for the core group; ``older``: the versions before
    ``version`` in which an older server serves the same objects, newest first."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    older: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of one object, of its subresource, or, without a name, of the collection (of all namespaces without
        one)."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [self.plural, name, subresource]
        return "/" + "/".join(part for part in parts if part)


PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
SERVICES = Resource("", "v1", "services", "Service", namespaced=True)
SECRETS = Resource("", "v1", "secrets", "Secret", namespaced=True)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)
PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True)
EVENTS = Resource("", "v1", "events", "Event", namespaced=True)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
CSI_DRIVERS = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False)
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
VOLUME_ATTACHMENTS = Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False)
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
SIGNING_REQUESTS = Resource(
    "certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", namespaced=False
)
CLUSTER_TRUST_BUNDLES = Resource(
    "certificates.k8s.io", "v1", "clustertrustbundles", "ClusterTrustBundle", namespaced=False, older=("v1beta1",)
)
POD_CERTIFICATE_REQUESTS = Resource(
    "certificates.k8s.io", "v1", "podcertificaterequests", "PodCertificateRequest", namespaced=True, older=("v1beta1",)
)
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
SELF_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a resource. Empty strings select everything; the selectors are in the API's own syntax, as
    ``spec.nodeName=worker-1``."""

    namespace: str = ""
    fields: str = ""
    labels: str = ""


@dataclass(frozen=True, slots=True)
class Item:
    """One object as the server has it: its identity, its version, and its JSON text."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    raw: bytes


@dataclass(frozen=True, slots=True)
class Unread:
    """An object that the server has and that cannot be read here: whose it is, and why not."""

    uid: str
    why: str


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list. ``items`` are to be had once: each is cut out of what the server sent when it is its turn, which
    raises ApiFailure for what is none. ``resource_version`` is what to watch from; a ``continue_token`` asks for the
    next part and is "" on the last."""

    items: Iterator[Item]
    resource_version: str
    continue_token: str = ""


class ChangeKind(StrEnum):
    """The kind of a watch event, in the API's own words."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class Change:
    """One word of a watch. A bookmark's item has a resource version and nothing else; ``initial_end`` marks the
    bookmark after the last of the objects a watch with ``initial`` begins with."""

    kind: ChangeKind
    item: Item
    initial_end: bool = False


class PatchKind(StrEnum):
    """How the server is to merge a patch; the values are content types."""

    STRATEGIC = "application/strategic-merge-patch+json"
    MERGE = "application/merge-patch+json"
