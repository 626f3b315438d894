"""Judges the machine: cgroups, swap, sysctls, ports, clock, disks; and the completeness of this program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.containers.cgroups import SYSTEMD
from trikubelet.core.kernel_defaults import KERNEL_DEFAULTS
from trikubelet.core.timestamps import SECOND_NS, rfc3339
from trikubelet.model.finding import error, good, warning
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from trikubelet.model.finding import Finding

CGROUPS, SWAP, SYSCTL, PORT, CLOCK, DISK = "cgroups", "swap", "sysctls", "ports", "clock", "disk"
PROGRAM: Final = "program"
PROCESSES: Final = "processes"
MEMORY: Final = "memory"
REQUIRED: Final = ("cpu", "memory", "pids")

_WITHOUT: Final = {
    "vm.overcommit_memory": "pods get memory by their limits, not by the kernel's estimate",
    "vm.panic_on_oom": "a container out of memory would take the machine with it",
    "kernel.panic": "a machine that panicked should come back, and not before its last words are out",
    "kernel.panic_on_oops": "a kernel that is broken would go on",
    "kernel.keys.root_maxkeys": "a runtime needs a key for each container, and this limits root's keys",
    "kernel.keys.root_maxbytes": "a runtime needs a key for each container, and this limits their total size",
}
SYSCTLS: Final[Mapping[str, tuple[int, str]]] = {
    **{name: (wanted, _WITHOUT[name]) for name, wanted in KERNEL_DEFAULTS.items()},
    "net.ipv4.ip_forward": (1, "pods cannot reach other machines"),
}
"""The values that a node should have and the effect of others: upstream's, and those that every pod network needs."""
SYSCTLS_INSIDE: Final = ("vm.panic_on_oom",)
"""Those that matter to pods of a runtime inside the agent: they use the machine's network, and have no memory
limits."""

NODEFS_SHARE_MIN: Final = 0.10
INODES_SHARE_MIN: Final = 0.05
"""The default eviction thresholds ``nodefs.available`` and ``nodefs.inodesFree``."""
DISK_BYTES_MIN: Final = 64 * 1024 * 1024
"""With less free space no pod starts, whatever the size of its images."""


def judge_backend(backend: str, problem: str) -> Finding:
    """Judge if the compiled module is in use; ``problem``: why not."""
    if backend == "rust":
        return good(PROGRAM, "its compiled module is in use")
    remedy = "every relist costs several times as much: install a build for this machine"
    return warning(PROGRAM, f"the compiled module cannot be loaded, plain Python is used ({problem})", remedy)


def judge_cgroups(version: int, controllers: Collection[str], driver: str, *, by_systemd: bool) -> Iterator[Finding]:
    """Judge the cgroups. ``version``: that of ``host.cgroups``; ``driver``: the runtime's, or the configured one if the
    runtime does not report it; ``by_systemd``: systemd runs this machine."""
    missing = [name for name in REQUIRED if name not in controllers]
    if missing:
        found = f"there is no controller {' and no '.join(missing)}" if version else "none are mounted"
        yield warning(CGROUPS, f"{found}: limits do not hold", "mount cgroup2 at /sys/fs/cgroup, or switch them on")
    elif version == 2 and by_systemd and driver != SYSTEMD:
        remedy = "set cgroupDriver: systemd here and in the runtime's configuration"
        yield warning(CGROUPS, f"v2, and the driver is {driver} while systemd believes them its own", remedy)
    elif driver == SYSTEMD and not by_systemd:
        remedy = "set cgroupDriver: cgroupfs here and in the runtime's configuration"
        yield warning(CGROUPS, f"v{version}, and the driver is systemd, which does not run this machine", remedy)
    else:
        yield good(CGROUPS, f"v{version}, driver {driver}")


def judge_processes(why_unlimited: str, *, per_container: int, per_user: int) -> Finding:
    """Judge the limit of a fork bomb in a container of the embedded runtime. ``why_unlimited``: why containers have no
    limit of their own, "" if they have ``per_container``; ``per_user``: the limit for all processes of the agent's
    user, 0 for none."""
    if not why_unlimited:
        return good(PROCESSES, f"at most {per_container} in each container")
    if per_user:
        found = f"at most {per_user} of this user together; containers have no limit of their own ({why_unlimited})"
        return good(PROCESSES, f"{found}, which an agent that runs as root gives them")
    found = f"containers have no limit ({why_unlimited}): a fork bomb exhausts the machine"
    return warning(PROCESSES, found, "let the agent write to the cgroups of the controller pids")


def judge_memory(tmpfs: str, problem: str, remedy: str) -> Finding:
    """Judge the place for Secrets of an agent that may not mount; ``problem``: why there is none."""
    if problem:
        return warning(MEMORY, f"pods with Secrets or volumes in memory wait: {problem}", remedy)
    return good(MEMORY, f"Secrets and volumes in memory are kept below {tmpfs}")


def judge_swap(swap_bytes: int, *, refused: bool, behaviour: str) -> Iterator[Finding]:
    """Judge the swap. ``refused``: the agent does not start with it, because failSwapOn is configured; ``behaviour``:
    memorySwap.swapBehavior."""
    if not swap_bytes:
        yield good(SWAP, "none")
    elif refused:
        found = f"{swap_bytes // 1024**2} MiB are on, and failSwapOn is true"
        yield error(SWAP, found, "swapoff -a and take it out of /etc/fstab, or set failSwapOn: false")
    else:
        yield good(SWAP, f"{swap_bytes // 1024**2} MiB are on, for pods: {behaviour or 'NoSwap'}")


def judge_sysctls(values: Mapping[str, int | None]) -> Iterator[Finding]:
    """Judge the sysctls. ``values``: the kernel's, of those of ``SYSCTLS`` that matter; None for missing ones."""
    wrong = {name: value for name, value in values.items() if value is not None and value != SYSCTLS[name][0]}
    for name, value in wrong.items():
        wanted, why = SYSCTLS[name]
        yield warning(SYSCTL, f"{name} is {value}: {why}", f"sysctl -w {name}={wanted}, and a file in /etc/sysctl.d")
    if not wrong:
        rest = "as a node's should be"
        inside = f"{', '.join(values)} is as it should be; pods inside the agent depend on no other"
        yield good(SYSCTL, inside if values.keys() == set(SYSCTLS_INSIDE) else rest)


def judge_port(port: int, field: str, *, taken: bool) -> Iterator[Finding]:
    """Judge a port that the agent would listen on."""
    if taken:
        remedy = f"`ss -ltnp 'sport = :{port}'` shows the process that listens there: end it, or set {field}"
        yield error(PORT, f"{port} is taken: the agent will not start", remedy)
    else:
        yield good(PORT, f"{port} ({field}) is free")


def judge_clock(now_ns: int, newest_ns: int, *, synchronised: bool | None, in_cluster: bool) -> Iterator[Finding]:
    """Judge the clock. ``newest_ns``: the newest time known to lie in the past; ``synchronised``: the kernel's report,
    None if it has none; ``in_cluster``: other machines compare this node's times with their own."""
    if now_ns < newest_ns - SECOND_NS:
        found = f"it is {rfc3339(now_ns)} here, and there are files of {rfc3339(newest_ns)}"
        yield error(CLOCK, found, "set the clock: with a wrong one certificates and tokens are not good")
    elif synchronised is False and in_cluster:
        yield warning(CLOCK, "no time service keeps it right", "run chrony or systemd-timesyncd")
    else:
        plausible = "plausible: later than every file of the agent"
        yield good(CLOCK, "kept by a time service" if synchronised else plausible)


class Disk(Frozen):
    """The usage of a file system. ``place`` is a path on it; ``inodes`` is 0 if it does not count them."""

    place: str
    bytes_: int
    bytes_free: int
    inodes: int
    inodes_free: int
    read_only: bool


def judge_disk(disk: Disk) -> Iterator[Finding]:
    """Judge one file system that the node writes to."""
    percent = 100 * disk.bytes_free // max(1, disk.bytes_)
    remedy = "remove images and logs, or give it more room"
    if disk.read_only:
        yield error(DISK, f"{disk.place} is read-only", "look into the kernel's log; mount it for writing")
    elif disk.bytes_free < DISK_BYTES_MIN:
        yield error(DISK, f"{disk.place} is full: {disk.bytes_free // 1024**2} MiB are left", remedy)
    elif disk.bytes_free < NODEFS_SHARE_MIN * disk.bytes_:
        yield warning(DISK, f"{disk.place}: {percent} % are left, and a node should have 10 %", remedy)
    elif disk.inodes and disk.inodes_free < INODES_SHARE_MIN * disk.inodes:
        yield warning(
            DISK, f"{disk.place}: {disk.inodes_free} inodes are left, and a node should have 5 % of all", remedy
        )
    else:
        yield good(DISK, f"{disk.place}: {percent} % are left")
