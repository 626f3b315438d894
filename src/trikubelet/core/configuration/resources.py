"""The rules for resources: what is reserved and enforced, and the thresholds of eviction.

Amounts are quantities or, where a share makes sense, percentages. The names are those of the node's resources and of
eviction's signals.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

from trikubelet.core.manifest.problem import Problems, duplicate, forbidden, invalid, required, unsupported
from trikubelet.model import quantity
from trikubelet.model.duration import parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.model.kubelet_configuration import KubeletConfiguration

_RESERVABLE: Final = ("cpu", "memory", "ephemeral-storage", "pid")
_SIGNALS: Final = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "containerfs.available",
    "containerfs.inodesFree",
    "pid.available",
)
_ENFORCEABLE: Final = (
    "pods",
    "system-reserved",
    "kube-reserved",
    "system-reserved-compressible",
    "kube-reserved-compressible",
    "none",
)
_CPUS: Final = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")


def problems(c: KubeletConfiguration) -> Problems:
    """Yield all faults of these fields."""
    yield from _reserved(c)
    yield from _set_aside(c)
    yield from _enforced(c)
    yield from _eviction(c)
    try:
        if quantity.whole(c.container_log_max_size) == 0:
            detail = "must be more than 0, or less for logs that are never rotated"
            yield invalid("containerLogMaxSize", c.container_log_max_size, detail)
    except ValueError as wrong:
        yield invalid("containerLogMaxSize", c.container_log_max_size, str(wrong))
    if c.system_cgroups and not c.cgroup_root:
        yield required("cgroupRoot", "systemCgroups needs it")
    if c.system_cgroups and not c.system_cgroups.strip("/"):
        yield invalid("systemCgroups", c.system_cgroups, "must not be the root cgroup, from which processes are moved")
    for path, name in (("systemCgroups", c.system_cgroups), ("kubeletCgroups", c.kubelet_cgroups)):
        if {".", ".."} & {*name.split("/")}:
            yield invalid(path, name, "must be a cgroup's path from the root, without . and ..")


def _reserved(c: KubeletConfiguration) -> Problems:
    for path, reserved in (("systemReserved", c.system_reserved), ("kubeReserved", c.kube_reserved)):
        for name, amount in reserved.items():
            if name not in _RESERVABLE and not name.startswith("hugepages-"):
                yield unsupported(f"{path}[{name}]", name, _RESERVABLE)
            elif problem := _quantity_problem(amount):
                yield invalid(f"{path}[{name}]", amount, problem)
    for name, share in c.qos_reserved.items():
        if name != "memory":
            yield unsupported(f"qosReserved[{name}]", name, ("memory",))
        elif _percentage(share) is None:
            yield invalid(f"qosReserved[{name}]", share, "must be a percentage such as 50%")


def _set_aside(c: KubeletConfiguration) -> Problems:
    """Yield the faults of CPUs and memory that are reserved from pods."""
    if c.reserved_system_cpus:
        if problem := _cpus_problem(c.reserved_system_cpus):
            yield invalid("reservedSystemCPUs", c.reserved_system_cpus, problem)
        if c.system_reserved_cgroup or c.kube_reserved_cgroup:
            yield forbidden("reservedSystemCPUs", "cannot stand beside systemReservedCgroup and kubeReservedCgroup")
    for n, reservation in enumerate(c.reserved_memory):
        path = f"reservedMemory[{n}]"
        if reservation.numa_node < 0:
            yield invalid(f"{path}.numaNode", reservation.numa_node, "must be 0 or more")
        for name, size in reservation.limits.items():
            if name != "memory" and not name.startswith("hugepages-"):
                yield unsupported(f"{path}.limits[{name}]", name, ("memory", "hugepages-2Mi", "hugepages-1Gi"))
            elif problem := _quantity_problem(size):
                yield invalid(f"{path}.limits[{name}]", size, problem)


def _enforced(c: KubeletConfiguration) -> Problems:
    path = "enforceNodeAllocatable"
    enforced = c.enforce_node_allocatable
    for n, name in enumerate(enforced):
        if name not in _ENFORCEABLE:
            yield unsupported(f"{path}[{n}]", name, _ENFORCEABLE)
        if name in enforced[:n]:
            yield duplicate(f"{path}[{n}]", name)
    real = [name for name in enforced if name != "none"]
    if real and "none" in enforced:
        yield forbidden(path, '"none" must stand alone')
    if real and not c.cgroups_per_qos:
        yield forbidden(path, "needs cgroupsPerQOS: true; write enforceNodeAllocatable: [] without it")
    for kind, cgroup in (("system-reserved", c.system_reserved_cgroup), ("kube-reserved", c.kube_reserved_cgroup)):
        field = "systemReservedCgroup" if kind == "system-reserved" else "kubeReservedCgroup"
        if any(name in (kind, f"{kind}-compressible") for name in real):
            if not cgroup:
                yield required(field, f"{path} names {kind}")
            elif not cgroup.strip("/") or {".", ".."} & {*cgroup.split("/")}:
                yield invalid(field, cgroup, "must be a cgroup's path below the root, without . and ..")
        if kind in real and f"{kind}-compressible" in real:
            yield forbidden(path, f"{kind} and {kind}-compressible exclude each other")


def _eviction(c: KubeletConfiguration) -> Problems:
    for path, thresholds in (("evictionHard", c.eviction_hard), ("evictionSoft", c.eviction_soft)):
        yield from _amounts(path, thresholds, zero="quantity")
    yield from _amounts("evictionMinimumReclaim", c.eviction_minimum_reclaim, zero="percentage")
    for signal, grace in c.eviction_soft_grace_period.items():
        path = f"evictionSoftGracePeriod[{signal}]"
        if signal not in _SIGNALS:
            yield unsupported(path, signal, _SIGNALS)
        try:
            if parse_duration(grace) < 0:
                yield invalid(path, grace, "must not be negative")
        except ValueError as wrong:
            yield invalid(path, grace, str(wrong))
    for signal in c.eviction_soft:
        if signal in _SIGNALS and signal not in c.eviction_soft_grace_period:
            yield required(f"evictionSoftGracePeriod[{signal}]", f"evictionSoft names {signal}")


def _amounts(path: str, amounts: Mapping[str, str], *, zero: Literal["quantity", "percentage"]) -> Problems:
    """Yield the faults of amounts. ``zero``: the kind of amount that must not be zero. 0% switches a threshold off, and
    a quantity of 0 is no minimum reclaim; both like upstream."""
    for signal, amount in amounts.items():
        if signal not in _SIGNALS:
            yield unsupported(f"{path}[{signal}]", signal, _SIGNALS)
        if amount.endswith("%"):
            if (share := _percentage(amount)) is None or not 0 <= share <= 100:
                yield invalid(f"{path}[{signal}]", amount, "must be between 0% and 100%")
            elif not share and zero == "percentage":
                yield invalid(f"{path}[{signal}]", amount, "must be more than 0%")
        elif problem := _quantity_problem(amount):
            yield invalid(f"{path}[{signal}]", amount, problem)
        elif zero == "quantity" and not quantity.parse(amount):
            yield invalid(f"{path}[{signal}]", amount, "must be more than 0 (0% switches a threshold off)")


def _percentage(text: str) -> float | None:
    try:
        return float(text.removesuffix("%")) if text.endswith("%") else None
    except ValueError:
        return None


def _quantity_problem(amount: str | int | float) -> str:
    try:
        return "must not be negative" if quantity.parse(amount) < 0 else ""
    except ValueError as wrong:
        return str(wrong)


def _cpus_problem(cpus: str) -> str:
    if _CPUS.fullmatch(cpus) is None:
        return "must be numbers and ranges of CPUs such as 0-3,6"
    for part in cpus.split(","):
        first, _, last = part.partition("-")
        if last and int(first) > int(last):
            return f"the range {part} runs backwards"
    return ""
