"""Finds the given settings that change nothing: anywhere, by the registry of fields (``core.support.configuration``),
or on the machine they were given for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trikubelet.core.field_path import path_of
from trikubelet.core.support.configuration import CONFIGURATION, HONOURED_GATES
from trikubelet.core.support.field import State
from trikubelet.model.api_names import fields_of
from trikubelet.model.feature_gates import GATES
from trikubelet.model.kubelet_configuration import KubeletConfiguration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trikubelet.core.field_path import Place


def without_effect(given: Iterable[Place], gates: Mapping[str, bool]) -> tuple[str, ...]:
    """Return the fields among the given places that change nothing, each once, in the order they were given. Feature
    gates count if they differ from their default."""
    found: dict[str, None] = {}
    for place in given:
        if place[0] == "featureGates":
            found |= {path_of(place): None for name in place[1:] if _is_idle(name, gates[name])}
            continue
        path = path_of(_field(place))
        support = CONFIGURATION.support_of(path)
        if support is None or support.state is State.REPORTED:
            found[path] = None
    return tuple(found)


def without_effect_in_version_1(c: KubeletConfiguration) -> tuple[str, ...]:
    """Return the fields whose request cgroups of version 1 cannot express. There the kernel kills single processes, and
    cannot limit swap by shares, throttle memory or reserve it. (upstream rejects singleProcessOOMKill: false there, and
    ignores the rest silently)"""
    asked = {
        "memoryReservationPolicy": c.memory_reservation_policy == "TieredReservation",
        "memorySwap.swapBehavior": c.memory_swap.swap_behavior == "LimitedSwap",
        "memoryThrottlingFactor": c.memory_throttling_factor is not None,
        "singleProcessOOMKill": c.single_process_oom_kill is False,
    }
    return tuple(name for name, is_asked in asked.items() if is_asked)


def without_effect_embedded(c: KubeletConfiguration) -> tuple[str, ...]:
    """Return the fields that the embedded runtime cannot serve: cgroups that limit, profiles, and a resolv.conf of a
    pod's own. (fields of pods: ``core.containers.embedded``)"""
    asked = {
        "clusterDNS": bool(c.cluster_dns),
        "memoryReservationPolicy": c.memory_reservation_policy == "TieredReservation",
        "memorySwap.swapBehavior": c.memory_swap.swap_behavior == "LimitedSwap",
        "podPidsLimit": c.pod_pids_limit > 0,
        "seccompDefault": c.seccomp_default,
    }
    return tuple(name for name, is_asked in asked.items() if is_asked)


def _is_idle(gate: str, value: bool) -> bool:
    return gate not in HONOURED_GATES and value is not GATES[gate].default


def _field(place: Place) -> Place:
    """Return the part of a place that names a field, without keys of maps and numbers of lists."""
    type_: object = KubeletConfiguration
    for length, name in enumerate(place):
        field = fields_of(type_).get(name)
        if field is None:
            return place[:length]
        type_ = field.type
        if not (isinstance(type_, type) and issubclass(type_, msgspec.Struct)):
            return place[: length + 1]
    return place
