"""The kernel settings that a node needs, and the faults that ``protectKernelDefaults`` reports where they differ.

The values are upstream's (upstream-behaviour.md, "Kernel tunables"). Upstream sets them itself unless
protectKernelDefaults is set. This agent never sets them, because they concern the whole machine and are the operator's
choice. The doctor reports those that differ; with protectKernelDefaults the node does not start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KERNEL_DEFAULTS: Final[Mapping[str, int]] = {
    "vm.overcommit_memory": 1,
    "vm.panic_on_oom": 0,
    "kernel.panic": 10,
    "kernel.panic_on_oops": 1,
    "kernel.keys.root_maxkeys": 1_000_000,
    "kernel.keys.root_maxbytes": 25_000_000,
}


def kernel_faults(values: Mapping[str, int | None]) -> Sequence[str]:
    """Return a line for each setting that differs, with its remedy. ``values``: the kernel's; None if unreadable."""
    faults = []
    for name, wanted in KERNEL_DEFAULTS.items():
        value = values.get(name)
        if value != wanted:
            found = "cannot be read" if value is None else f"is {value}"
            remedy = f"sysctl -w {name}={wanted}, or unset protectKernelDefaults"
            faults.append(f"{name} {found} and must be {wanted} ({remedy})")
    return faults
