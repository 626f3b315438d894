"""The facts of this machine: its name, addresses, memory, processors, kernel, and the resolv.conf its pods may inherit.

The composition root reads them once at start, turns them into ``NodeFacts`` and puts them into node reports. Everything
but the addresses, which ``host/addresses.py`` looks up repeatedly, comes from small files under /proc, /sys and /etc,
so a test points ``root`` at a directory of its own. Unreadable facts are empty or zero, never invented; only the memory
size is required, because OOM scores depend on it.
"""

from __future__ import annotations

import os
import platform
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from trikubelet.core.containers.dns import parse_resolv_conf
from trikubelet.core.timestamps import SECOND_NS
from trikubelet.core.topology.cpu_list import parse_list
from trikubelet.host.mounts import has_all_ids, is_allowed
from trikubelet.kit.named_file import read_named
from trikubelet.model.errors import StartFailed
from trikubelet.model.node_reading import NodeReading

if TYPE_CHECKING:
    from trikubelet.model.runtime_config import DNSConfig

# Documentation addresses (RFC 5737, RFC 3849): never on a local network, so the default route decides.
_ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
_MEMINFO = re.compile(r"^(\w+):\s+(\d+) kB$", re.MULTILINE)
_BOOTED = re.compile(r"^btime (\d+)$", re.MULTILINE)
_GO_NAMES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


def read_node(root: Path = Path("/"), root_dir: Path = Path("/")) -> NodeReading:
    """Read the machine; ``root_dir`` is on the disk whose size is reported. Raises StartFailed if the memory size
    cannot be read."""
    memory = {name: int(kib) * 1024 for name, kib in _MEMINFO.findall(_text(root / "proc/meminfo"))}
    if not memory.get("MemTotal"):
        raise StartFailed(f"{root / 'proc/meminfo'}: no MemTotal; is /proc mounted?")
    machine = platform.machine()
    return NodeReading(
        hostname=(_text(root / "proc/sys/kernel/hostname") or socket.gethostname()).lower(),
        memory_bytes=memory["MemTotal"],
        cpus=_cpus(read_online_cpus(root)),
        swap_bytes=memory.get("SwapTotal", 0),
        kernel=_text(root / "proc/sys/kernel/osrelease"),
        os_image=_os_image(_text(root / "etc/os-release")),
        architecture=_GO_NAMES.get(machine, machine),
        machine_id=_text(root / "etc/machine-id"),
        system_uuid=_text(root / "sys/class/dmi/id/product_uuid"),
        boot_id=_text(root / "proc/sys/kernel/random/boot_id"),
        huge_pages=_huge_pages(root / "sys/kernel/mm/hugepages"),
        disk_bytes=_disk_bytes(root_dir),
        apparmor=_text(root / "sys/module/apparmor/parameters/enabled") == "Y"
        and (root / "sys/kernel/security/apparmor").exists(),
        throttle_paths=_throttle_paths(root),
        may_mount=is_allowed(),
        booted_ns=int(found[1]) * SECOND_NS if (found := _BOOTED.search(_text(root / "proc/stat"))) else 0,
        processes_max=_processes_max(root / "proc/sys/kernel"),
        # A kernel without user namespaces has no such file.
        in_user_namespace=bool(ids := _text(root / "proc/self/uid_map")) and not has_all_ids(ids),
    )


def read_online_cpus(root: Path = Path("/")) -> str:
    """Return the online CPUs as the kernel lists them, like ``0-3,6``; empty if they cannot be read."""
    return _text(root / "sys/devices/system/cpu/online")


def default_addresses() -> tuple[str, ...]:
    """Return the addresses that the default routes send from, IPv4 first; none without a route. Sends nothing:
    connecting a UDP socket only reads the routing table."""
    found = []
    for family, elsewhere in _ELSEWHERE:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((elsewhere, 9))
                found.append(str(probe.getsockname()[0]))
        except OSError:
            continue  # no route of this family
    return tuple(found)


def read_resolv_conf(path: Path) -> DNSConfig:
    """Return the resolv.conf that pods with ``dnsPolicy: Default`` inherit. Raises StartFailed naming the file."""
    try:
        return parse_resolv_conf(read_named(path).decode(errors="replace"))
    except OSError as error:
        raise StartFailed(
            f"{path}: cannot be read: {error.strerror} (set resolvConf to the file that pods should use)"
        ) from error


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _cpus(online: str) -> int:
    """Return the number of processors in a list such as ``0-3,6``."""
    try:
        return len(parse_list(online)) or os.cpu_count() or 1
    except ValueError:
        return os.cpu_count() or 1


def _os_image(os_release: str) -> str:
    values = dict(line.partition("=")[::2] for line in os_release.splitlines())
    return (values.get("PRETTY_NAME") or values.get("NAME") or "").strip("\"'")


def _huge_pages(directory: Path) -> dict[int, int]:
    found = {}
    for pages in sorted(directory.glob("hugepages-*kB")):
        size_bytes = int(pages.name.removeprefix("hugepages-").removesuffix("kB")) * 1024
        found[size_bytes] = int(_text(pages / "nr_hugepages") or 0)
    return found


def _processes_max(kernel: Path) -> int:
    limits = [int(text) for name in ("pid_max", "threads-max") if (text := _text(kernel / name)).isdigit()]
    return min(limits, default=0)


def _throttle_paths(root: Path) -> tuple[str, ...]:
    found = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/thermal_throttle")
    return tuple(sorted(f"/{path.relative_to(root)}" for path in found))


def _disk_bytes(directory: Path) -> int:
    try:
        found = os.statvfs(directory)
    except OSError:
        return 0
    return found.f_blocks * found.f_frsize
