"""Volumes of drivers and of remote storage: the fields that each needs.

Most of them are no longer mounted by any kubelet. Still, their faults are reported before that.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from trikubelet.core.manifest.problem import forbidden, invalid, named, one_of, required, too_long
from trikubelet.model import names
from trikubelet.model.api_names import attributes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trikubelet.core.manifest.problem import Problems
    from trikubelet.model.k8s import (
        AWSElasticBlockStoreVolumeSource,
        AzureDiskVolumeSource,
        CinderVolumeSource,
        CSIVolumeSource,
        FCVolumeSource,
        FlexVolumeSource,
        FlockerVolumeSource,
        GCEPersistentDiskVolumeSource,
        GitRepoVolumeSource,
        ISCSIVolumeSource,
        QuobyteVolumeSource,
        StorageOSVolumeSource,
        Volume,
    )

BYTE_MAX = 255
TENANT_CHARS_MAX = 64
_REQUIRED: Final = {
    "awsElasticBlockStore": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "azureFile": ("secretName", "shareName"),
    "cephfs": ("monitors",),
    "cinder": ("volumeID",),
    "flexVolume": ("driver",),
    "gcePersistentDisk": ("pdName",),
    "gitRepo": ("repository",),
    "glusterfs": ("endpoints", "path"),
    "iscsi": ("targetPortal", "iqn"),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "quobyte": ("registry", "volume"),
    "rbd": ("monitors", "image"),
    "scaleIO": ("gateway", "system", "volumeName"),
    "storageos": ("volumeName",),
    "vsphereVolume": ("volumePath",),
}
"""The required fields of a volume of that type."""
_RESERVED_OPTIONS: Final = ("kubernetes.io", "k8s.io")
_IQN: Final = {
    "iqn": re.compile(r"iqn\.[0-9]{4}-[0-9]{2}\.[A-Za-z0-9.-]+(:[^,;*&$|\s]+)"),
    "eui": re.compile(r"eui\.[A-Za-z0-9]{16}"),
    "naa": re.compile(r"naa\.[A-Za-z0-9]{32}"),
}


def driver_problems(path: str, volume: Volume) -> Problems:
    """Yield the problems of a volume that a driver mounts."""
    for kind, fields in _REQUIRED.items():
        source: msgspec.Struct | None = getattr(volume, attributes(type(volume))[kind])
        if source is not None:
            known = attributes(type(source))
            yield from (required(f"{path}.{kind}.{field}") for field in fields if not getattr(source, known[field]))
    for kind, rule in _RULES.items():
        source = getattr(volume, attributes(type(volume))[kind])
        if source is not None:
            yield from rule(f"{path}.{kind}", source)


def _partition(path: str, source: AWSElasticBlockStoreVolumeSource | GCEPersistentDiskVolumeSource) -> Problems:
    yield from _byte(f"{path}.partition", source.partition)


def _byte(path: str, number: int | None) -> Problems:
    if number is not None and not 0 <= number <= BYTE_MAX:
        yield invalid(path, number, f"must be between 0 and {BYTE_MAX}")


def _iscsi(path: str, source: ISCSIVolumeSource) -> Problems:
    for field, name in (("iqn", source.iqn), ("initiatorName", source.initiator_name)):
        form = _IQN.get(name[:3])
        if name and (form is None or form.fullmatch(name) is None):
            yield invalid(f"{path}.{field}", name, "must be a name such as iqn.2001-04.com.example:disk")
    yield from _byte(f"{path}.lun", source.lun)
    if (source.chap_auth_discovery or source.chap_auth_session) and source.secret_ref is None:
        yield required(f"{path}.secretRef", "CHAP needs a Secret")


def _fibre_channel(path: str, source: FCVolumeSource) -> Problems:
    here = f"{path}.targetWWNs"
    if not source.target_wwns and not source.wwids:
        yield required(here, "must have targetWWNs or wwids")
    elif source.target_wwns and source.wwids:
        yield invalid(here, source.target_wwns, "may not stand beside wwids")
    if source.target_wwns and source.lun is None:
        yield required(f"{path}.lun", "must be set where targetWWNs is")
    elif source.target_wwns:
        yield from _byte(f"{path}.lun", source.lun)


def _azure_disk(path: str, source: AzureDiskVolumeSource) -> Problems:
    yield from one_of(f"{path}.cachingMode", source.caching_mode, ("None", "ReadOnly", "ReadWrite"))
    yield from one_of(f"{path}.kind", source.kind, ("Shared", "Dedicated", "Managed"))
    start = "/subscriptions/" if source.kind == "Managed" else "https://"
    if source.disk_uri and not source.disk_uri.startswith(start):
        yield invalid(f"{path}.diskURI", source.disk_uri, f"must begin with {start} for a disk of this kind")


def _csi(path: str, source: CSIVolumeSource) -> Problems:
    yield from named(f"{path}.driver", source.driver, names.subdomain_problem(source.driver.lower()))
    if len(source.driver) > names.LABEL_CHARS_MAX:
        yield too_long(f"{path}.driver", names.LABEL_CHARS_MAX)
    if (ref := source.node_publish_secret_ref) is not None:
        yield from named(f"{path}.nodePublishSecretRef.name", ref.name, names.subdomain_problem(ref.name))


def _flex(path: str, source: FlexVolumeSource) -> Problems:
    for key in source.options:
        domain = key.partition("/")[0].lower()
        if domain in _RESERVED_OPTIONS or domain.endswith(tuple(f".{name}" for name in _RESERVED_OPTIONS)):
            yield invalid(f"{path}.options[{key}]", key, "the domains kubernetes.io and k8s.io are reserved")


def _flocker(path: str, source: FlockerVolumeSource) -> Problems:
    if source.dataset_name and source.dataset_uuid:
        yield forbidden(path, "may not have both datasetName and datasetUUID")
    if not source.dataset_name and not source.dataset_uuid:
        yield required(path, "must have datasetName or datasetUUID")
    if "/" in source.dataset_name:
        yield invalid(f"{path}.datasetName", source.dataset_name, "must not contain '/'")


def _git_repo(path: str, source: GitRepoVolumeSource) -> Problems:
    if problem := names.path_in_volume_problem(source.directory):
        yield invalid(f"{path}.directory", source.directory, problem)


def _quobyte(path: str, source: QuobyteVolumeSource) -> Problems:
    hosts = source.registry.split(",") if source.registry else []
    if any(":" not in host for host in hosts):
        yield invalid(f"{path}.registry", source.registry, "must be one or more HOST:PORT, separated by commas")
    if len(source.tenant) > TENANT_CHARS_MAX:
        yield invalid(f"{path}.tenant", source.tenant, f"must be no more than {TENANT_CHARS_MAX} characters")


def _storageos(path: str, source: StorageOSVolumeSource) -> Problems:
    if source.volume_name and (problem := names.label_problem(source.volume_name)):
        yield invalid(f"{path}.volumeName", source.volume_name, problem)
    if source.volume_namespace and (problem := names.label_problem(source.volume_namespace)):
        yield invalid(f"{path}.volumeNamespace", source.volume_namespace, problem)
    if source.secret_ref is not None and not source.secret_ref.name:
        yield required(f"{path}.secretRef.name")


def _cinder(path: str, source: CinderVolumeSource) -> Problems:
    if source.secret_ref is not None and not source.secret_ref.name:
        yield required(f"{path}.secretRef.name")


_RULES: Final[Mapping[str, Callable[[str, Any], Problems]]] = {
    "awsElasticBlockStore": _partition,
    "azureDisk": _azure_disk,
    "cinder": _cinder,
    "csi": _csi,
    "fc": _fibre_channel,
    "flexVolume": _flex,
    "flocker": _flocker,
    "gcePersistentDisk": _partition,
    "gitRepo": _git_repo,
    "iscsi": _iscsi,
    "quobyte": _quobyte,
    "storageos": _storageos,
}
"""Further rules for volumes of a type."""
