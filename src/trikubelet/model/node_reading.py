"""One reading of the machine a node is: the findings of ``host.node``, as plain data for the part that decides on
it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field

from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping


class NodeReading(Frozen):
    """One reading of the machine. ``architecture`` is Go's name for it, as Kubernetes writes it; ``huge_pages`` maps a
    page size in bytes to the number of pages reserved; ``disk_bytes`` is the size of the file system the root directory
    lies on; ``apparmor``: the kernel enforces it; ``throttle_paths``: what shows each processor's heat; ``may_mount``:
    this process may mount file systems; ``booted_ns``: when the machine started, in nanoseconds since the epoch, 0 for
    unknown; ``processes_max``: how many processes and threads the kernel runs at a time, 0 for unknown;
    ``in_user_namespace``: this process is in another user namespace than the machine's first."""

    hostname: str
    memory_bytes: int
    cpus: int
    swap_bytes: int = 0
    kernel: str = ""
    os_image: str = ""
    architecture: str = ""
    machine_id: str = ""
    system_uuid: str = ""
    boot_id: str = ""
    disk_bytes: int = 0
    apparmor: bool = False
    throttle_paths: tuple[str, ...] = ()
    huge_pages: Mapping[int, int] = field(default_factory=dict)
    may_mount: bool = True
    booted_ns: int = 0
    processes_max: int = 0
    in_user_namespace: bool = False
