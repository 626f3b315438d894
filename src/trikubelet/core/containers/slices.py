"""What is set with systemd for a cgroup that is a slice of its own: the properties that mean what ``cgroup_values``
says.

The files of a slice are systemd's to write: what was not set with it, it may undo with its next reload. It keeps a
quota in whole percents, so it gets no less than there should be, and the files are set as well, to the microsecond. Of
huge pages it knows nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.core.containers.cgroup_values import Setting

ACCOUNTING: Final = {"CPUAccounting": "yes", "MemoryAccounting": "yes", "TasksAccounting": "yes"}
"""What makes systemd give a slice a cgroup in every tree that matters."""
_NAMES: Final = {
    "cpu.shares": "CPUShares",
    "cpu.weight": "CPUWeight",
    "memory.limit_in_bytes": "MemoryMax",
    "memory.low": "MemoryLow",
    "memory.max": "MemoryMax",
    "memory.min": "MemoryMin",
    "pids.max": "TasksMax",
}
_NONE: Final = ("-1", "max")


def properties(settings: Iterable[Setting]) -> dict[str, str]:
    """Of every setting that systemd knows, its name for it and the value (systemd.resource-control(5))."""
    values = {setting.file: setting.value for setting in settings}
    found = {_NAMES[file]: "infinity" if value in _NONE else value for file, value in values.items() if file in _NAMES}
    quota, _, period = values.get("cpu.max", "").partition(" ")
    quota = quota or values.get("cpu.cfs_quota_us", "")
    period = period or values.get("cpu.cfs_period_us", "")
    if quota in _NONE:
        found["CPUQuota"] = ""
    elif quota:
        found |= {"CPUQuota": f"{-(-int(quota) * 100 // int(period))}%", "CPUQuotaPeriodSec": f"{period}us"}
    return found
