"""What of the configuration this agent acts upon: the one registry, edited by whoever makes another field work.

A field that is given and not listed is named in one warning at start, so that nobody trusts in something that does
nothing. An entry covers everything below it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from trikubelet.core.document.record import path_of
from trikubelet.model.feature_gates import GATES
from trikubelet.model.kubelet_configuration import KubeletConfiguration, fields_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trikubelet.core.document.record import Place

HONOURED: Final = frozenset(
    {
        "allowedUnsafeSysctls",
        "cgroupDriver",
        "cgroupRoot",
        "cgroupsPerQOS",
        "clusterDNS",
        "clusterDomain",
        "containerRuntimeEndpoint",
        "cpuCFSQuota",
        "cpuCFSQuotaPeriod",
        "crashLoopBackOff.maxContainerRestartPeriod",
        "enforceNodeAllocatable",
        "fileCheckFrequency",
        "healthzBindAddress",
        "healthzPort",
        "httpCheckFrequency",
        "imageServiceEndpoint",
        "kubeReserved",
        "logging.format",
        "logging.verbosity",
        "logging.vmodule",
        "maxParallelImagePulls",
        "podLogsDir",
        "podPidsLimit",
        "resolvConf",
        "runtimeRequestTimeout",
        "seccompDefault",
        "serializeImagePulls",
        "staticPodPath",
        "staticPodURL",
        "staticPodURLHeader",
        "syncFrequency",
        "systemReserved",
    }
)
"""Field paths that have an effect."""

HONOURED_GATES: Final = frozenset(
    {"AllAlpha", "AllBeta", "KubeletCrashLoopBackOffMax", "ReduceDefaultCrashLoopBackOffDecay"}
)
"""Feature gates that have an effect. The groups only speak for others, which are named themselves where it matters."""


def without_effect(given: Iterable[Place], gates: Mapping[str, bool]) -> tuple[str, ...]:
    """The fields among the given places that change nothing, each once, in the order they were given. Of the feature
    gates those that were set to something else than their default."""
    found: dict[str, None] = {}
    for place in given:
        if place[0] == "featureGates":
            found |= {path_of(place): None for name in place[1:] if _is_idle(name, gates[name])}
            continue
        field = _field(place)
        if not any(path_of(field[:length]) in HONOURED for length in range(1, len(field) + 1)):
            found[path_of(field)] = None
    return tuple(found)


def _is_idle(gate: str, value: bool) -> bool:
    return gate not in HONOURED_GATES and value is not GATES[gate].default


def _field(place: Place) -> Place:
    """The part of a place that names a field, without keys of maps and numbers of lists."""
    type_: object = KubeletConfiguration
    for length, name in enumerate(place):
        field = fields_of(type_).get(name)
        if field is None:
            return place[:length]
        type_ = field.type
        if not (isinstance(type_, type) and issubclass(type_, msgspec.Struct)):
            return place[: length + 1]
    return place
