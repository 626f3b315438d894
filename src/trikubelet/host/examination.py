"""The doctor's measurements of this machine: sysctls, disks, ports, the kernel's clock, network configurations.

They are read-only; a port is tried by listening on it for a moment. Disks may hang, so callers use a thread. A test
points ``root`` at a directory of its own.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trikubelet.core.doctor import CNI_DIRECTORY, CNI_PLUGINS, SYSCTLS, Disk, PodNetwork

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.model.runtime import NetworkSetup

_TIMEX_BYTES: Final = 256
"""More than the kernel's struct timex has (208)."""
_TIME_ERROR: Final = 5
_CNI_ENDINGS: Final = (".conf", ".conflist", ".json")


def read_sysctls(names: Iterable[str] = SYSCTLS, root: Path = Path("/")) -> dict[str, int | None]:
    """Return the kernel's values; None if there is no such sysctl, or it is not a number."""
    found: dict[str, int | None] = {}
    for name in names:
        found[name] = None
        with suppress(OSError, ValueError):
            found[name] = int((root / "proc/sys" / name.replace(".", "/")).read_text())
    return found


def read_disk(place: Path) -> Disk:
    """Return the file system of a path, or of the place where it will be created. Raises OSError."""
    there = next(path for path in (place, *place.parents) if path.exists())
    stat = os.statvfs(there)
    return Disk(
        place=str(place),
        bytes_=stat.f_blocks * stat.f_frsize,
        bytes_free=stat.f_bavail * stat.f_frsize,
        inodes=stat.f_files,
        inodes_free=stat.f_favail,
        read_only=bool(stat.f_flag & os.ST_RDONLY),
    )


def read_network(setup: NetworkSetup | None, root: Path = Path("/")) -> PodNetwork:
    """Return the CNI configurations and plugins in the runtime's directories, or in upstream's if it does not report
    its own."""
    if setup is None:
        return PodNetwork(_configurations(root, CNI_DIRECTORY))
    held = [_names(root, directory) for directory in setup.plugin_dirs]
    missing = tuple(name for name in setup.plugins if not any(name in names for names in held))
    others = (place for place in CNI_PLUGINS if place not in setup.plugin_dirs)
    elsewhere = next((place for place in others if missing and set(missing) <= _names(root, place)), "")
    found = _configurations(root, setup.configuration_dir)
    return PodNetwork(found, setup.configuration_dir, setup.plugin_dirs, missing, elsewhere)


def _configurations(root: Path, directory: str) -> tuple[str, ...]:
    """Return the names of the CNI configurations there; the runtime uses the first."""
    return tuple(sorted(name for name in _names(root, directory) if name.endswith(_CNI_ENDINGS)))


def _names(root: Path, directory: str) -> set[str]:
    with suppress(OSError):
        return set(os.listdir(root / directory.lstrip("/")))
    return set()


def is_by_systemd(root: Path = Path("/")) -> bool:
    """True if systemd runs this machine (sd_booted(3))."""
    return (root / "run/systemd/system").is_dir()


def is_synchronised() -> bool | None:
    """True if the kernel's clock is synchronised (adjtimex(2), reading only); None if it does not report that."""
    libc = ctypes.CDLL(None, use_errno=True)
    state = libc.adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    return None if state < 0 else state != _TIME_ERROR


def newest_change_ns(places: Iterable[Path]) -> int:
    """Return when the newest of these files was changed; 0 if none exists."""
    newest = 0
    for place in places:
        with suppress(OSError):
            newest = max(newest, place.stat().st_mtime_ns)
    return newest


def is_taken(address: str, port: int) -> bool:
    """True if a TCP port is in use. One that cannot be tried counts as free: the agent will report why."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((address, port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False
