"""The programs and files that ``packaging/vm/build.sh`` made, and QEMU's command line for a machine of a given shape.

QEMU is a foreign Debian's, so its programs run with that Debian's loader and libraries. The processor is emulated:
KVM is never used, because hosts of tests are virtual machines themselves.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from live.kit import places

BUILD: Final = places.LIVE.parent.parent / "packaging" / "vm" / "build.sh"
_LIBRARIES: Final = Path("usr/lib/x86_64-linux-gnu")


@dataclass(frozen=True)
class Shape:
    """The hardware of a machine. ``second_disk`` is the image of an additional disk, ``/dev/vdb``."""

    cpus: int = 2
    memory_mib: int = 2048
    numa_nodes: int = 1
    second_disk: Path | None = None

    def arguments(self) -> list[str]:
        """Return the shape's part of QEMU's command line."""
        cores = self.cpus // self.numa_nodes
        found = ["-m", f"{self.memory_mib}M", "-smp", f"{self.cpus},sockets={self.numa_nodes},cores={cores},threads=1"]
        if self.numa_nodes > 1:
            for node in range(self.numa_nodes):
                size = self.memory_mib // self.numa_nodes
                found += ["-object", f"memory-backend-ram,id=memory{node},size={size}M"]
                cpus = f"cpus={node * cores}-{(node + 1) * cores - 1}"
                found += ["-numa", f"node,nodeid={node},{cpus},memdev=memory{node}"]
        if self.second_disk is not None:
            found += ["-drive", f"file={self.second_disk},format=qcow2,if=virtio"]
        return found


@dataclass(frozen=True)
class Image:
    """The directory of the machine's image."""

    directory: Path

    @classmethod
    def found(cls) -> Image:
        """Return the image that was built. Raises NotInstalled."""
        asked = subprocess.run([str(BUILD), "--where"], check=True, capture_output=True, text=True)
        directory = Path(asked.stdout.strip())
        if not directory.exists():
            raise places.NotInstalled(f"{directory} is missing; run {BUILD} as root to build it")
        return cls(directory)

    @property
    def disk(self) -> Path:
        """The disk with Debian, which is never written."""
        return self.directory / "disk.raw"

    @property
    def key(self) -> Path:
        """The private key of root on the machine."""
        return self.directory / "key"

    def machine(self, disk: Path, ssh_port: int, shape: Shape) -> list[str]:
        """Return the command that runs a machine in the current directory, which gets the file ``console``.

        A reboot of the guest ends it, so that the end of one boot and the start of the next are seen. The guest reaches
        nothing outside; the only way in is ssh.
        """
        network = f"user,model=virtio-net-pci,restrict=on,hostfwd=tcp:127.0.0.1:{ssh_port}-:22"
        kernel = "root=/dev/vda rw console=ttyS0 net.ifnames=0 mitigations=off quiet panic=5"  # a failed boot ends QEMU
        firmware = self._qemu / "usr/share"
        return [
            *self._program("qemu-system-x86_64"),
            *("-L", str(firmware / "qemu"), "-L", str(firmware / "seabios")),
            *("-machine", "q35", "-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max,la57=off"),
            *("-drive", f"file={disk},format=qcow2,if=virtio,cache=writeback", "-nic", network),
            *shape.arguments(),  # a second disk comes after the first: the order gives the names /dev/vda and /dev/vdb
            *("-device", "virtio-rng-pci", "-display", "none", "-monitor", "none"),
            *("-chardev", "file,id=console,path=console,append=on", "-serial", "chardev:console"),
            *("-kernel", str(self.directory / "kernel"), "-initrd", str(self.directory / "initrd"), "-append", kernel),
            *("-action", "reboot=shutdown"),
        ]

    def overlay(self, below: Path, made: Path) -> Path:
        """Make a disk that holds what ``below`` holds, and what will be written, and return its path."""
        kind = "raw" if below.suffix == ".raw" else "qcow2"
        words = ["create", "-q", "-f", "qcow2", "-F", kind, "-b", str(below), str(made)]
        subprocess.run([*self._program("qemu-img"), *words], check=True)
        return made

    def empty_disk(self, made: Path, mib: int) -> Path:
        """Make an empty disk and return its path."""
        subprocess.run([*self._program("qemu-img"), "create", "-q", "-f", "qcow2", str(made), f"{mib}M"], check=True)
        return made

    @property
    def _qemu(self) -> Path:
        return (self.directory / "qemu").resolve()

    def _program(self, name: str) -> list[str]:
        loader, libraries = self._qemu / "lib64/ld-linux-x86-64.so.2", self._qemu / _LIBRARIES
        return [str(loader), "--library-path", str(libraries), str(self._qemu / "usr/bin" / name)]
