"""How a node's kernel should be set, and what ``protectKernelDefaults`` says where it is not.

The values are upstream's (upstream-behaviour.md, "Kernel tunables"). It sets them itself unless it is to protect what
it finds. Here they are never set: they are the whole machine's, and an operator's to choose. So the doctor
reports those that differ, and where they are protected the node does not start on another kernel than was meant.
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
    """What differs, and what to do, a line for each. ``values``: what the kernel has; None where it does not say."""
    faults = []
    for name, wanted in KERNEL_DEFAULTS.items():
        value = values.get(name)
        if value != wanted:
            found = "cannot be read" if value is None else f"is {value}"
            faults.append(f"{name} {found} and must be {wanted} (sysctl -w {name}={wanted}, or protect nothing)")
    return faults
