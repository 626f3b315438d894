"""The API's defaults of a volume: file modes, types, and an empty directory if no source is given. Only ``defaults``
calls this."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from trikubelet.core.image_names import default_pull_policy
from trikubelet.core.manifest.container_defaults import field_selector
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.model.k8s import Volume

FILE_MODE = 0o644
TOKEN_SECONDS = 3600


def with_volume_defaults(volume: Volume) -> Volume:
    """Return the volume as the API server would have stored it."""
    kinds = [name for name in volume.__struct_fields__ if name != "name" and getattr(volume, name) is not None]
    if not kinds:
        return replace(volume, empty_dir=k8s.EmptyDirVolumeSource())
    changes = {kind: _DEFAULTS[kind](getattr(volume, kind)) for kind in kinds if kind in _DEFAULTS}
    return replace(volume, **changes)


def _moded(
    source: k8s.SecretVolumeSource | k8s.ConfigMapVolumeSource,
) -> k8s.SecretVolumeSource | k8s.ConfigMapVolumeSource:
    return replace(source, default_mode=_mode(source.default_mode))


def _mode(mode: int | None) -> int:
    return FILE_MODE if mode is None else mode


def _downward_files(items: tuple[k8s.DownwardAPIVolumeFile, ...]) -> tuple[k8s.DownwardAPIVolumeFile, ...]:
    return tuple(replace(item, field_ref=field_selector(item.field_ref)) for item in items)


def _downward(source: k8s.DownwardAPIVolumeSource) -> k8s.DownwardAPIVolumeSource:
    return replace(source, default_mode=_mode(source.default_mode), items=_downward_files(source.items))


def _projected(source: k8s.ProjectedVolumeSource) -> k8s.ProjectedVolumeSource:
    sources = tuple(_projection(projection) for projection in source.sources)
    return replace(source, default_mode=_mode(source.default_mode), sources=sources)


def _projection(projection: k8s.VolumeProjection) -> k8s.VolumeProjection:
    downward, token = projection.downward_api, projection.service_account_token
    if downward is not None:
        downward = replace(downward, items=_downward_files(downward.items))
    if token is not None and token.expiration_seconds is None:
        token = replace(token, expiration_seconds=TOKEN_SECONDS)
    return replace(projection, downward_api=downward, service_account_token=token)


def _image(source: k8s.ImageVolumeSource) -> k8s.ImageVolumeSource:
    return replace(source, pull_policy=source.pull_policy or default_pull_policy(source.reference))


def _iscsi(source: k8s.ISCSIVolumeSource) -> k8s.ISCSIVolumeSource:
    return replace(source, iscsi_interface=source.iscsi_interface or "default")


def _ephemeral(source: k8s.EphemeralVolumeSource) -> k8s.EphemeralVolumeSource:
    template = source.volume_claim_template
    if template is None or template.spec is None:
        return source
    spec = replace(template.spec, volume_mode=template.spec.volume_mode or "Filesystem")
    return replace(source, volume_claim_template=replace(template, spec=spec))


_DEFAULTS: dict[str, Callable[..., object]] = {
    "secret": _moded,
    "config_map": _moded,
    "downward_api": _downward,
    "projected": _projected,
    "image": _image,
    "iscsi": _iscsi,
    "ephemeral": _ephemeral,
}
"""A hostPath without a type has the empty type already; drivers of their own mount the remaining kinds."""
