"""A volume's part of a pod's description: its kind and that kind's fields; and a volume's own description.

The kinds of volumes that static pods use have layouts of their own; for any other the fields are listed as the API has
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import json

from trikubelet.cli.describe.layout import Layout
from trikubelet.core.kubectl.words import NONE
from trikubelet.core.names import with_ephemeral

if TYPE_CHECKING:
    from trikubelet.model import k8s

LEVEL = 2
_SHORT = {"nfs", "csi", "fc", "rbd", "iscsi"}


def describe_pod_volume(pod: k8s.Pod, volume: k8s.Volume, state: str) -> list[str]:
    """Return the lines about one volume by itself: its pod, its state, and its mounts in containers."""
    out = Layout()
    out.field(0, "Name", volume.name)
    out.field(0, "Pod", pod.metadata.name)
    out.field(0, "Namespace", pod.metadata.namespace)
    out.field(0, "State", state or NONE)
    mounts = [
        f"{container.name} at {mount.mount_path}{' (read-only)' if mount.read_only else ''}"
        for container in with_ephemeral(pod)
        for mount in container.volume_mounts
        if mount.name == volume.name
    ]
    out.fields(0, "Mounted By", mounts)
    out.title(0, "Source")
    describe_volume(out, volume)
    return out.lines()


def describe_volume(out: Layout, volume: k8s.Volume) -> None:
    """Lay it out below its name."""
    if volume.empty_dir is not None:
        out.field(LEVEL, "Type", "EmptyDir (lives as long as the pod)")
        out.field(LEVEL, "Medium", volume.empty_dir.medium)
        limit = volume.empty_dir.size_limit
        out.field(LEVEL, "SizeLimit", "<unset>" if limit is None else limit)
    elif volume.host_path is not None:
        out.field(LEVEL, "Type", "HostPath (a file or directory of the node)")
        out.field(LEVEL, "Path", volume.host_path.path)
        out.field(LEVEL, "HostPathType", volume.host_path.type)
    elif volume.config_map is not None:
        out.field(LEVEL, "Type", "ConfigMap (filled from a ConfigMap)")
        out.field(LEVEL, "Name", volume.config_map.name)
        out.field(LEVEL, "Optional", bool(volume.config_map.optional))
    elif volume.secret is not None:
        out.field(LEVEL, "Type", "Secret (filled from a Secret)")
        out.field(LEVEL, "SecretName", volume.secret.secret_name)
        out.field(LEVEL, "Optional", bool(volume.secret.optional))
    elif volume.downward_api is not None:
        out.field(LEVEL, "Type", "DownwardAPI (filled with facts about the pod)")
        _downward_items(out, volume.downward_api.items)
    elif volume.projected is not None:
        out.field(LEVEL, "Type", "Projected (several sources in one directory)")
        for source in volume.projected.sources:
            _projection(out, source)
    else:
        _other(out, volume)


def _downward_items(out: Layout, items: tuple[k8s.DownwardAPIVolumeFile, ...]) -> None:
    for item in items:
        if item.field_ref is not None:
            out.field(LEVEL, item.path, item.field_ref.field_path)
        elif item.resource_field_ref is not None:
            out.field(
                LEVEL, item.path, f"{item.resource_field_ref.resource} of {item.resource_field_ref.container_name}"
            )


def _projection(out: Layout, source: k8s.VolumeProjection) -> None:
    if source.downward_api is not None:
        _downward_items(out, source.downward_api.items)
    for kind, fields in msgspec.to_builtins(source).items():
        if kind != "downwardAPI":
            out.field(LEVEL, _kind(kind), fields.get("name") or fields.get("audience") or fields.get("path") or "")


def _other(out: Layout, volume: k8s.Volume) -> None:
    by_kind = {kind: fields for kind, fields in msgspec.to_builtins(volume).items() if kind != "name"}
    if not by_kind:
        # The API server's default for a volume without a kind.
        out.field(LEVEL, "Type", "EmptyDir (lives as long as the pod)")
    for kind, fields in by_kind.items():
        out.field(LEVEL, "Type", _kind(kind))
        for name, value in fields.items():
            out.fields(LEVEL, _kind(name), _values(value))


def _values(value: object) -> list[str]:
    """Return each value in a line: named ones as kubectl prints them, deeper ones as JSON."""
    if isinstance(value, dict):
        return [f"{name}={one if isinstance(one, str) else json.encode(one).decode()}" for name, one in value.items()]
    return [str(value)]


def _kind(name: str) -> str:
    return name.upper() if name in _SHORT else name[:1].upper() + name[1:]
