"""Keeps one virtual machine with the agent up until it is interrupted: ``PYTHONPATH=tests python -m vm.kit``.

It prints the command that opens a shell on the machine. ``--kubelet=upstream`` installs upstream's kubelet.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import suppress
from pathlib import Path

from .machine import Machine
from .node import KUBELETS, prepare
from .qemu import Image


def main() -> None:
    """Boot a machine, print how to reach it, and switch it off at Ctrl-C. Raises NotInstalled."""
    parser = argparse.ArgumentParser(prog="python -m vm.kit", description="Keep one virtual machine up.")
    parser.add_argument("--kubelet", choices=sorted(KUBELETS), default="agent", help="the kubelet to install")
    kind = KUBELETS[parser.parse_args().kubelet]
    image = Image.found()
    with tempfile.TemporaryDirectory(prefix="trikubelet-vm-") as made:
        directory = Path(made)
        machine = Machine(image, image.overlay(image.disk, directory / "disk.qcow2"), directory)
        try:
            prepare(machine, kind)
            machine.start()
            kind(machine).configure()
            print(f"start the kubelet there with: systemctl start {kind.unit}", machine.shell(), sep="\n", flush=True)
            with suppress(KeyboardInterrupt):
                machine.wait()
        finally:
            machine.cut_power()


if __name__ == "__main__":
    main()
