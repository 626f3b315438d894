"""A cgroup tree of plain directories, whose files come and go with them as the kernel's do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

V1_FILES = {
    "cpu": {"cpu.shares": "1024", "cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "-1"},
    "memory": {"memory.limit_in_bytes": "9223372036854771712"},
}
V2_FILES = {
    "cpu.weight": "100",
    "cpu.max": "max 100000",
    "memory.max": "max",
    "memory.min": "0",
    "memory.low": "0",
    "memory.high": "max",
    "memory.oom.group": "0",
    "memory.swap.max": "max",
    "pids.max": "max",
    "cpuset.cpus": "",
    "cgroup.subtree_control": "",
}


def pretend_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on directories are made and removed as in a cgroup tree: of version 1 below one named for a controller,
    of version 2 below one named ``unified``. One with a process in it is busy."""
    real_mkdir, real_rmdir = Path.mkdir, Path.rmdir

    def mkdir(self: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        is_new = not self.exists()
        real_mkdir(self, mode, parents, exist_ok)
        if is_new:
            tree = next((name for name in V1_FILES if name in self.parts), "")
            files = V1_FILES[tree] if tree else V2_FILES if "unified" in self.parts else {}
            for name, value in {"cgroup.procs": "", **files}.items():
                (self / name).write_text(value)

    def rmdir(self: Path) -> None:
        if (self / "cgroup.procs").read_text():
            raise OSError(16, "Device or resource busy", str(self))
        for file in self.iterdir():
            if file.is_file():
                file.unlink()
        real_rmdir(self)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    monkeypatch.setattr(Path, "rmdir", rmdir)
