"""Volumes: a unique name, one source each, and the fields that the source needs.

Sources on the node and sources made of the API's objects are here, the others in ``drivers``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.manifest.problem import duplicate, forbidden, invalid, named, one_of, required
from trikubelet.core.manifest.validation.containers import PULL_POLICIES
from trikubelet.core.manifest.validation.drivers import driver_problems
from trikubelet.core.manifest.validation.environment import VOLUME_FIELDS, field_problems, resource_field_problems
from trikubelet.core.manifest.validation.rules import (
    amount_problems,
    at_most_one,
    chosen,
    exactly_one,
    id_problems,
    mode_problems,
)
from trikubelet.model import names, quantity

if TYPE_CHECKING:
    from trikubelet.core.manifest.problem import Problems
    from trikubelet.model.k8s import (
        DownwardAPIVolumeFile,
        EmptyDirVolumeSource,
        HostPathVolumeSource,
        KeyToPath,
        PodSpec,
        ProjectedVolumeSource,
        Volume,
        VolumeProjection,
    )

HOST_PATH_TYPES = (
    "DirectoryOrCreate",
    "Directory",
    "FileOrCreate",
    "File",
    "Socket",
    "CharDevice",
    "BlockDevice",
)
VOLUME_TYPES = (
    *("emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi"),
    *("glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc"),
    *("configMap", "azureFile", "flexVolume", "vsphereVolume", "azureDisk", "storageos", "projected", "scaleIO"),
    *("photonPersistentDisk", "portworxVolume", "csi", "ephemeral", "image"),
)
"""In the order in which the API looks for them: the first one counts, and any other is one too many."""
TOKEN_SECONDS_MIN, TOKEN_SECONDS_MAX = 600, 1 << 32


def volume_problems(spec: PodSpec) -> Problems:
    """Yield the problems of a pod's volumes."""
    seen: set[str] = set()
    for n, volume in enumerate(spec.volumes):
        path = f"spec.volumes[{n}]"
        yield from named(f"{path}.name", volume.name, names.label_problem(volume.name))
        if volume.name and volume.name in seen:
            yield duplicate(f"{path}.name", volume.name)
        seen.add(volume.name)
        # No source means an empty directory, which the defaults have filled in.
        yield from exactly_one(path, chosen(volume, VOLUME_TYPES), "a volume type")
        yield from _source(path, volume, spec)


def _source(path: str, volume: Volume, spec: PodSpec) -> Problems:
    if volume.host_path is not None:
        yield from _host_path(f"{path}.hostPath", volume.host_path)
    if volume.empty_dir is not None:
        yield from _empty_dir(f"{path}.emptyDir", volume.empty_dir)
    if volume.image is not None:
        if not volume.image.reference:
            yield required(f"{path}.image.reference")
        yield from one_of(f"{path}.image.pullPolicy", volume.image.pull_policy, PULL_POLICIES)
    if volume.nfs is not None:
        server = volume.nfs.server
        yield from named(f"{path}.nfs.server", server, names.nfs_server_problem(server))
        if not volume.nfs.path.startswith("/"):
            yield invalid(f"{path}.nfs.path", volume.nfs.path, "must be an absolute path")
    if volume.projected is not None:
        yield from _projected(f"{path}.projected", volume.projected, spec)
    if volume.downward_api is not None:
        yield from mode_problems(f"{path}.downwardAPI.defaultMode", volume.downward_api.default_mode)
        yield from id_problems(f"{path}.downwardAPI.defaultUser", volume.downward_api.default_user)
        yield from _downward(f"{path}.downwardAPI", volume.downward_api.items, spec)
    yield from _objects(path, volume)
    yield from driver_problems(path, volume)


def _host_path(path: str, source: HostPathVolumeSource) -> Problems:
    if not source.path:
        yield required(f"{path}.path")
    elif ".." in source.path.split("/"):
        yield invalid(f"{path}.path", source.path, "must not contain '..'")
    elif not source.path.startswith("/"):
        yield invalid(f"{path}.path", source.path, "must be an absolute path")
    yield from one_of(f"{path}.type", source.type, HOST_PATH_TYPES)


def _empty_dir(path: str, source: EmptyDirVolumeSource) -> Problems:
    if source.size_limit is not None:
        yield from amount_problems(f"{path}.sizeLimit", source.size_limit)
    if not _is_of_pages(source.medium):
        yield from one_of(f"{path}.medium", source.medium, ("Memory", "HugePages", "HugePages-2Mi", "HugePages-1Gi"))


def _is_of_pages(medium: str) -> bool:
    """True if the medium is huge pages of a valid size."""
    kind, _, size = medium.partition("-")
    try:
        return kind == "HugePages" and quantity.parse(size) > 0
    except ValueError:
        return False


def _objects(path: str, volume: Volume) -> Problems:
    """Yield the problems of volumes made of the API's objects."""
    if (config := volume.config_map) is not None:
        yield from named(f"{path}.configMap.name", config.name, names.subdomain_problem(config.name))
        yield from mode_problems(f"{path}.configMap.defaultMode", config.default_mode)
        yield from id_problems(f"{path}.configMap.defaultUser", config.default_user)
        yield from _items(f"{path}.configMap", config.items)
    if (secret := volume.secret) is not None:
        yield from named(f"{path}.secret.secretName", secret.secret_name, names.subdomain_problem(secret.secret_name))
        yield from mode_problems(f"{path}.secret.defaultMode", secret.default_mode)
        yield from id_problems(f"{path}.secret.defaultUser", secret.default_user)
        yield from _items(f"{path}.secret", secret.items)
    if (claim := volume.persistent_volume_claim) is not None:
        where = f"{path}.persistentVolumeClaim.claimName"
        yield from named(where, claim.claim_name, names.subdomain_problem(claim.claim_name))
    if volume.ephemeral is not None and volume.ephemeral.volume_claim_template is None:
        yield required(f"{path}.ephemeral.volumeClaimTemplate")


def _items(path: str, items: tuple[KeyToPath, ...], taken: set[str] | None = None) -> Problems:
    for n, item in enumerate(items):
        here = f"{path}.items[{n}]"
        yield from named(f"{here}.key", item.key, names.config_key_problem(item.key))
        yield from _file(f"{here}.path", item.path, taken)
        yield from mode_problems(f"{here}.mode", item.mode)
        yield from id_problems(f"{here}.user", item.user)


def _file(path: str, file: str, taken: set[str] | None) -> Problems:
    """Yield the problems of a file in a volume. ``taken``: the files of the volume's other sources; within one source
    the last one counts."""
    yield from named(path, file, names.path_in_volume_problem(file))
    if file and file.startswith(".."):
        yield invalid(path, file, "must not begin with '..'")
    if file and taken is not None:
        if file in taken:
            yield duplicate(path, file)
        taken.add(file)


def _downward(
    path: str, items: tuple[DownwardAPIVolumeFile, ...], spec: PodSpec, taken: set[str] | None = None
) -> Problems:
    for n, item in enumerate(items):
        here = f"{path}.items[{n}]"
        yield from _file(f"{here}.path", item.path, taken)
        yield from mode_problems(f"{here}.mode", item.mode)
        yield from id_problems(f"{here}.user", item.user)
        yield from exactly_one(here, chosen(item, ("fieldRef", "resourceFieldRef")), "fieldRef or resourceFieldRef")
        if item.field_ref is not None:
            yield from field_problems(f"{here}.fieldRef", item.field_ref, VOLUME_FIELDS)
        if item.resource_field_ref is not None:
            ref = item.resource_field_ref
            yield from resource_field_problems(f"{here}.resourceFieldRef", ref, spec, names_container=True)


def _projected(path: str, source: ProjectedVolumeSource, spec: PodSpec) -> Problems:
    yield from mode_problems(f"{path}.defaultMode", source.default_mode)
    yield from id_problems(f"{path}.defaultUser", source.default_user)
    taken: set[str] = set()
    for n, projection in enumerate(source.sources):
        here = f"{path}.sources[{n}]"
        yield from at_most_one(here, chosen(projection))
        yield from _projection(here, projection, spec, taken)


def _projection(path: str, projection: VolumeProjection, spec: PodSpec, taken: set[str]) -> Problems:
    for field, objects in (("configMap", projection.config_map), ("secret", projection.secret)):
        if objects is not None:
            yield from named(f"{path}.{field}.name", objects.name, names.subdomain_problem(objects.name))
            yield from _items(f"{path}.{field}", objects.items, taken)
    if projection.downward_api is not None:
        yield from _downward(f"{path}.downwardAPI", projection.downward_api.items, spec, taken)
    if (token := projection.service_account_token) is not None:
        seconds = token.expiration_seconds
        if seconds is not None and not TOKEN_SECONDS_MIN <= seconds <= TOKEN_SECONDS_MAX:
            detail = f"must be between {TOKEN_SECONDS_MIN} and {TOKEN_SECONDS_MAX}"
            yield invalid(f"{path}.serviceAccountToken.expirationSeconds", seconds, detail)
        yield from _file(f"{path}.serviceAccountToken.path", token.path, None)
    if (bundle := projection.cluster_trust_bundle) is not None:
        if bool(bundle.name) == bool(bundle.signer_name):
            yield invalid(f"{path}.clusterTrustBundle", {}, "must have either name or signerName")
        if bundle.name and bundle.label_selector is not None:
            yield forbidden(f"{path}.clusterTrustBundle.labelSelector", "goes with signerName only")
        yield from _file(f"{path}.clusterTrustBundle.path", bundle.path, taken)
