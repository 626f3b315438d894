"""Volumes of CSI drivers: reads them from specs, and builds the requests, names and records of them.

A volume comes from a PersistentVolume behind a claim, or from the pod's own spec (inline; it lives as long as the pod).
``volumes.csi`` does the work. Names, keys, texts and rules are upstream's, so that drivers and controllers written for
it find what they expect, and so that either agent can take over a disk from the other.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import field

from trikubelet.core.claims import BLOCK, ONE_POD
from trikubelet.model.csi import AccessMode, Capability, Use
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from trikubelet.core.claims import Claim
    from trikubelet.model import k8s
    from trikubelet.model.objects import ServiceAccountToken
    from trikubelet.model.plugins import PluginInfo

PERSISTENT: Final = "Persistent"
EPHEMERAL: Final = "Ephemeral"
INFO_PREFIX: Final = "csi.storage.k8s.io/"
TOKENS: Final = f"{INFO_PREFIX}serviceAccount.tokens"
TOKEN_SECONDS: Final = 3600
"""The lifetime of a token if the driver specifies none."""

_ONE_NODE: Final = frozenset({"ReadWriteOnce", ONE_POD})


class SecretName(Frozen):
    """The namespace and name of a volume's Secret."""

    namespace: str
    name: str


class Volume(Frozen):
    """A driver's volume, as one pod uses it. ``name``: the PersistentVolume's, or that of the pod's own volume;
    ``access_modes`` and ``claim``, the claim's name, are empty for the latter. ``needs_expansion``: the claim was
    waiting for a node to expand the volume when the pod's volume was looked up."""

    name: str
    driver: str
    handle: str
    lifecycle: str
    fs_type: str = ""
    read_only: bool = False
    is_block: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    mount_options: tuple[str, ...] = ()
    stage_secret: SecretName | None = None
    publish_secret: SecretName | None = None
    expand_secret: SecretName | None = None
    claim: str = ""
    needs_expansion: bool = False

    @property
    def identity(self) -> tuple[str, str]:
        """The driver and the handle."""
        return self.driver, self.handle


class VolumeData(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The record next to a volume's mount (``vol_data.json``), from which the volume is unmounted after a restart."""

    volume_handle: str
    driver_name: str
    spec_vol_id: str = msgspec.field(default="", name="specVolID")
    node_name: str = ""
    attachment_id: str = msgspec.field(default="", name="attachmentID")
    volume_lifecycle_mode: str = ""

    @property
    def identity(self) -> tuple[str, str]:
        """The volume's driver and handle."""
        return self.driver_name, self.volume_handle


def claimed(
    volume: k8s.PersistentVolume, source: k8s.CSIPersistentVolumeSource, claim: Claim, *, needs_expansion: bool = False
) -> Volume:
    """Return the volume behind a claim."""
    spec = volume.spec
    return Volume(
        name=volume.metadata.name,
        driver=source.driver,
        handle=source.volume_handle,
        lifecycle=PERSISTENT,
        fs_type=source.fs_type,
        read_only=claim.read_only,
        is_block=spec.volume_mode == BLOCK,
        attributes=source.volume_attributes,
        access_modes=spec.access_modes,
        mount_options=spec.mount_options,
        stage_secret=_secret(source.node_stage_secret_ref),
        publish_secret=_secret(source.node_publish_secret_ref),
        expand_secret=_secret(source.node_expand_secret_ref),
        claim=claim.name,
        needs_expansion=needs_expansion,
    )


def _secret(ref: k8s.SecretReference | None) -> SecretName | None:
    return SecretName(ref.namespace, ref.name) if ref is not None else None


def inline(pod: k8s.Pod, name: str, source: k8s.CSIVolumeSource) -> Volume:
    """Return a volume that is defined in the pod's own spec."""
    ref = source.node_publish_secret_ref
    return Volume(
        name=name,
        driver=source.driver,
        handle=f"csi-{_digest(pod.metadata.uid + name)}",
        lifecycle=EPHEMERAL,
        fs_type=source.fs_type,
        read_only=bool(source.read_only),
        attributes=source.volume_attributes,
        publish_secret=SecretName(pod.metadata.namespace, ref.name) if ref is not None else None,
    )


def volume_data(volume: Volume, node: str, *, is_attached: bool) -> VolumeData:
    """Return the record to keep next to the volume's mount."""
    return VolumeData(
        volume_handle=volume.handle,
        driver_name=volume.driver,
        spec_vol_id=volume.name,
        node_name=node,
        attachment_id=attachment_name(volume, node) if is_attached else "",
        volume_lifecycle_mode=volume.lifecycle,
    )


def lifecycle_problem(volume: Volume, driver: k8s.CSIDriver | None) -> str:
    """Return why the driver does not support the volume's lifecycle mode; "" if it does. Without a CSIDriver object,
    only persistent volumes are supported."""
    wanted = f'volume mode "{volume.lifecycle}" not supported by driver {volume.driver}'
    if driver is None:
        return "" if volume.lifecycle == PERSISTENT else f"{wanted} (no CSIDriver object)"
    modes = driver.spec.volume_lifecycle_modes or (PERSISTENT,)
    if volume.lifecycle in modes:
        return ""
    supported = " ".join(f'"{mode}"' for mode in modes)
    return f"{wanted} (only supports [{supported}])"


def plugin_problem(plugin: PluginInfo) -> str:
    """Return why a CSI driver cannot be used; "" for one that speaks version 1."""
    if not any(version.removeprefix("v").partition(".")[0] == "1" for version in plugin.versions):
        versions = ", ".join(plugin.versions) or "none"
        return f"CSI driver {plugin.name} speaks versions that this node does not: {versions}; 1.x is needed"
    return ""


def is_attached_first(volume: Volume, driver: k8s.CSIDriver | None) -> bool:
    """True if a controller must attach the volume to the node first: persistent volumes, unless the driver opts out."""
    return volume.lifecycle == PERSISTENT and (driver is None or driver.spec.attach_required is not False)


def use_of(volume: Volume, capabilities: AbstractSet[Capability], group: int | None) -> Use:
    """Return how the driver must make the volume ready. ``group``: the pod's fsGroup, passed to drivers that apply
    it."""
    passes_group = group is not None and Capability.VOLUME_MOUNT_GROUP in capabilities and not volume.is_block
    return Use(
        access_mode=_access_mode(volume.access_modes, capabilities),
        is_block=volume.is_block,
        fs_type="" if volume.is_block else volume.fs_type,
        mount_flags=() if volume.is_block else volume.mount_options,
        group=str(group) if passes_group else "",
    )


def _access_mode(modes: tuple[str, ...], capabilities: AbstractSet[Capability]) -> AccessMode:
    """Return the driver's mode for these access modes; only the first one counts."""
    distinguishes_pods = Capability.SINGLE_NODE_MULTI_WRITER in capabilities
    match modes[0] if modes else "ReadWriteOnce":
        case "ReadOnlyMany":
            return AccessMode.MULTI_NODE_READER_ONLY
        case "ReadWriteMany":
            return AccessMode.MULTI_NODE_MULTI_WRITER
        case "ReadWriteOncePod" if distinguishes_pods:
            return AccessMode.SINGLE_NODE_SINGLE_WRITER
        case _:
            return AccessMode.SINGLE_NODE_MULTI_WRITER if distinguishes_pods else AccessMode.SINGLE_NODE_WRITER


def applies_fs_group(volume: Volume, driver: k8s.CSIDriver | None, capabilities: AbstractSet[Capability]) -> bool:
    """True if this agent sets the group of the volume's files (``fsGroup``), by the driver's fsGroupPolicy."""
    if volume.is_block or volume.read_only or Capability.VOLUME_MOUNT_GROUP in capabilities:
        return False
    policy = driver.spec.fs_group_policy if driver is not None else ""
    if policy in ("File", "None"):
        return policy == "File"
    return bool(volume.fs_type) and (volume.lifecycle == EPHEMERAL or not _ONE_NODE.isdisjoint(volume.access_modes))


def pod_info(pod: k8s.Pod, volume: Volume) -> dict[str, str]:
    """Return the facts about the pod that a driver with podInfoOnMount receives."""
    info = {
        "pod.name": pod.metadata.name,
        "pod.namespace": pod.metadata.namespace,
        "pod.uid": pod.metadata.uid,
        "serviceAccount.name": pod.spec.service_account_name,
        "ephemeral": "true" if volume.lifecycle == EPHEMERAL else "false",
    }
    return {INFO_PREFIX + name: value for name, value in info.items()}


def token_context(tokens: Mapping[str, ServiceAccountToken]) -> dict[str, str]:
    """Return the pod's tokens by audience for a driver with tokenRequests; empty without tokens."""
    by_audience = {
        audience: {"token": token.text, "expirationTimestamp": token.expires}
        for audience, token in sorted(tokens.items())
    }
    return {TOKENS: json.dumps(by_audience, separators=(",", ":"))} if by_audience else {}


def attachment_name(volume: Volume, node: str) -> str:
    """Return the VolumeAttachment's name."""
    return f"csi-{_digest(volume.handle + volume.driver + node)}"


def unique_name(driver: str, handle: str) -> str:
    """Return the volume's name in a node's volumesInUse and volumesAttached."""
    return f"kubernetes.io/csi/{driver}^{handle}"


def handle_digest(handle: str) -> str:
    """Return the part of a path that stands for the handle, which may be any text."""
    return _digest(handle)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
