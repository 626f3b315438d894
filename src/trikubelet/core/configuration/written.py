"""Writes a configuration like a file: upstream's names and durations, without secrets.

``/configz`` serves it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import msgspec

from trikubelet.core.masking import MASK
from trikubelet.model import k8s
from trikubelet.model.api_names import fields_of
from trikubelet.model.duration import format_duration
from trikubelet.model.kubelet_configuration import DURATIONS

if TYPE_CHECKING:
    from trikubelet.model.kubelet_configuration import KubeletConfiguration


def written(configuration: KubeletConfiguration) -> dict[str, Any]:
    """Return the whole configuration with its defaults, as JSON. Values of ``staticPodURLHeader``, which may be
    passwords, are masked."""
    masked = {name: (MASK,) * len(values) for name, values in configuration.static_pod_url_header.items()}
    return _written(msgspec.structs.replace(configuration, static_pod_url_header=masked))


def _written(record: msgspec.Struct) -> dict[str, Any]:
    found = {}
    for name, field in fields_of(type(record)).items():
        value = getattr(record, field.name)
        if value is not None:
            found[name] = _value(value, field.type)
    return found


def _value(value: Any, type_: Any) -> Any:
    if isinstance(value, k8s.Record):
        return msgspec.to_builtins(value)
    if isinstance(value, msgspec.Struct):
        return _written(value)
    if isinstance(value, tuple):
        return [_value(one, None) for one in value]
    if any(kind in DURATIONS for kind in (type_, *get_args(type_))):
        return format_duration(value)
    return value
