"""The options of the static CPU policy (cpuManagerPolicyOptions), checked as upstream checks them."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from trikubelet.core.topology.option_values import parse_boolean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

ALPHA_GATE: Final = "CPUManagerPolicyAlphaOptions"
BETA_GATE: Final = "CPUManagerPolicyBetaOptions"


class CpuOption(Enum):
    """An option that is switched on."""

    FULL_CORES = "full-pcpus-only"
    STRICT_RESERVATION = "strict-cpu-reservation"
    PREFER_UNCORE = "prefer-align-cpus-by-uncorecache"
    ACROSS_NUMA = "distribute-cpus-across-numa"
    ALIGN_BY_SOCKET = "align-by-socket"
    ACROSS_CORES = "distribute-cpus-across-cores"


CpuOptions = frozenset[CpuOption]

_GATES: Final = {
    CpuOption.ACROSS_NUMA: (BETA_GATE, "Beta"),
    CpuOption.ALIGN_BY_SOCKET: (ALPHA_GATE, "Alpha"),
    CpuOption.ACROSS_CORES: (ALPHA_GATE, "Alpha"),
}
_EXCLUSIVE: Final = (
    (CpuOption.FULL_CORES, CpuOption.ACROSS_CORES),
    (CpuOption.ACROSS_NUMA, CpuOption.ACROSS_CORES),
    (CpuOption.PREFER_UNCORE, CpuOption.ACROSS_CORES),
    (CpuOption.PREFER_UNCORE, CpuOption.ACROSS_NUMA),
)


def cpu_options(given: Mapping[str, str], gates: AbstractSet[str]) -> CpuOptions:
    """Return the options that are on. ``gates``: the feature gates that are on. Raises ValueError with upstream's
    text."""
    found = set()
    for name, text in sorted(given.items()):
        try:
            option = CpuOption(name)
        except ValueError:
            raise ValueError(f'unknown CPU Manager Policy option: "{name}"') from None
        if option in _GATES and _GATES[option][0] not in gates:
            stage = _GATES[option][1]
            raise ValueError(f'CPU Manager Policy {stage}-level Options not enabled, but option "{name}" provided')
        if parse_boolean(name, text):
            found.add(option)
    for one, other in _EXCLUSIVE:
        if {one, other} <= found:
            raise ValueError(f"static policy options {one.value} and {other.value} can not be used at the same time")
    return frozenset(found)
