"""The records of images that were pulled, so that no pod gets a private one without the right to it.

The forms are upstream's (``kubelet.config.k8s.io/v1alpha1``), and so are their places, so that a node can change its
kubelet: an ImagePullIntent while a pull is under way, an ImagePulledRecord once there is an image.
"""

from __future__ import annotations

from typing import ClassVar, Final

import msgspec

API_VERSION: Final = "kubelet.config.k8s.io/v1alpha1"
API_VERSIONS: Final = (API_VERSION, "kubelet.config.k8s.io/v1beta1")
"""Those whose records can be read."""


class _Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of all of them."""


class PullSecret(_Record, frozen=True, kw_only=True):
    """A Secret whose login pulled the image; ``credential_hash`` is of that login."""

    uid: str = ""
    namespace: str = ""
    name: str = ""
    credential_hash: str = ""


class PullAccount(_Record, frozen=True, kw_only=True):
    """A service account on whose behalf a credential plugin's login pulled the image."""

    uid: str = ""
    namespace: str = ""
    name: str = ""


class PullProofs(_Record, frozen=True, kw_only=True, omit_defaults=True):
    """The proven rights to an image: the pods that name these Secrets or have these accounts, or every pod of this
    node."""

    kubernetes_secrets: tuple[PullSecret, ...] = ()
    kubernetes_service_accounts: tuple[PullAccount, ...] = ()
    node_pods_accessible: bool = False


class PulledRecord(_Record, frozen=True, kw_only=True):
    """An image that we pulled, ``image_ref`` being the runtime's id of it. The proofs are kept by the name it was
    pulled by, without tag and digest; without any for a name every pod has to show its right to that again."""

    KIND: ClassVar = "ImagePulledRecord"

    image_ref: str
    last_updated_time: str
    credential_mapping: dict[str, PullProofs] = {}
    kind: str = KIND
    api_version: str = API_VERSION


class PullIntent(_Record, frozen=True, kw_only=True):
    """An image that is being pulled, or was when an earlier agent ended."""

    KIND: ClassVar = "ImagePullIntent"

    image: str
    kind: str = KIND
    api_version: str = API_VERSION
