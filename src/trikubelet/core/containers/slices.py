"""The systemd properties of a cgroup that is a slice of its own, equivalent to ``cgroup_values``.

systemd owns the files of a slice: it may undo direct writes at its next reload. It stores a quota as whole percents, to
which ``cgroup_values`` rounds it up. It does not support huge pages, so the files are set as well.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.core.containers.cgroup_values import Setting

ACCOUNTING: Final = {
    "CPUAccounting": "yes",
    "IOAccounting": "yes",
    "MemoryAccounting": "yes",
    "TasksAccounting": "yes",
}
"""The properties that make systemd create a slice's cgroup in every relevant hierarchy."""
NEWEST: Final = 1 << 30
"""The version of a systemd that has every property."""
_SINCE: Final = {"CPUQuotaPeriodSec": 242, "AllowedCPUs": 244}
"""The versions that introduced properties. An older systemd refuses all properties of a call that has one of these."""
_NAMES: Final = {
    "cpu.shares": "CPUShares",
    "cpu.weight": "CPUWeight",
    "cpuset.cpus": "AllowedCPUs",
    "memory.high": "MemoryHigh",
    "memory.limit_in_bytes": "MemoryMax",
    "memory.low": "MemoryLow",
    "memory.max": "MemoryMax",
    "memory.min": "MemoryMin",
    "pids.max": "TasksMax",
}
_NONE: Final = ("-1", "max")


def version_of(said: str) -> int:
    """Return systemd's version from its property, like ``Version=252.38-1~deb12u1``."""
    found = re.search(r"\d+", said)
    return int(found[0]) if found else NEWEST


def properties(settings: Iterable[Setting], version: int = NEWEST) -> dict[str, str]:
    """Return systemd's name and value of every setting that this version of it supports
    (systemd.resource-control(5))."""
    values = {setting.file: setting.value for setting in settings}
    found = {_NAMES[file]: "infinity" if value in _NONE else value for file, value in values.items() if file in _NAMES}
    quota, _, period = values.get("cpu.max", "").partition(" ")
    quota = quota or values.get("cpu.cfs_quota_us", "")
    period = period or values.get("cpu.cfs_period_us", "")
    if quota in _NONE:
        found["CPUQuota"] = ""
    elif quota:
        found |= {"CPUQuota": f"{-(-int(quota) * 100 // int(period))}%", "CPUQuotaPeriodSec": f"{period}us"}
    return {name: value for name, value in found.items() if version >= _SINCE.get(name, 0)}
