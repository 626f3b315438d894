"""The page "From nothing to nginx" on a copy of this machine, with the distribution's containerd and a stand-in for
nginx in a registry of the test's own; and the two traps that the page and the doctor name.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest

from live.kit import images
from live.kit.apart import Apart
from live.kit.daemon import await_that
from live.kit.network import free_port
from live.kit.reader import Reader, reading
from shell.docskit import TOP, blocks, files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

PAGE = TOP / "docs/from-nothing.md"
RUNTIME = "--container-runtime-endpoint=unix:///run/containerd/containerd.sock"
IN_A_SMALL_MACHINE = {
    "SystemdCgroup = true": "SystemdCgroup = false",
    "--cgroup-driver=systemd": "--cgroup-driver=cgroupfs",
    "version = 2\n": 'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\nrestrict_oom_score_adj = true\n',
}
"""The tests have no systemd, so both sides use the other driver; and they may lack CAP_SYS_RESOURCE."""
APT = 'APT::Get::Assume-Yes "true";\nAPT::Install-Recommends "false";\n'
OF_DOCKER = 'disabled_plugins = ["cri"]\n'
"""What counts of the configuration in Docker's package containerd.io."""


@pytest.fixture
def machine(swept_machine: None, directory: Path) -> Iterator[Apart]:
    images.imported()  # which a copy made before would not see
    with Apart([directory]) as made:
        made.write("/etc/apt/apt.conf.d/99-test", APT)
        yield made


def test_a_reader_gets_from_nothing_to_nginx(machine: Apart, directory: Path) -> None:
    port = free_port()
    instead = IN_A_SMALL_MACHINE | {"http://192.0.2.10:5000": f"http://127.0.0.1:{port}"}
    configuration = {"cgroupRoot": f"/{machine.cgroup}"}

    def write(name: str, text: str) -> None:
        machine.write(name if name.startswith("/") else f"{directory}/{name}", text)

    with reading(Reader(PAGE, directory, instead, configuration, machine.inside, write, machine.terminate)) as reader:
        serve_stand_ins(machine, port)
        images.write_layout(directory / "shop.tar", [shop()])
        for block in blocks(PAGE):
            for shown in block.shown:
                if shown.command == "systemctl restart containerd":
                    machine.start_containerd()
                elif shown.command == "systemctl disable --now trikubelet":
                    reader.end()
                elif block.mark == "run: agent":
                    reader.start(shown)
                elif block.mark == "run: machine":
                    reader.follow(shown, "run")

        left = machine.must("ctr", "-n", "k8s.io", "containers", "list", "-q")
    assert "" == left


def test_a_disabled_cri_plugin_is_found_by_the_doctor_and_its_line_helps(machine: Apart) -> None:
    machine.write("/etc/containerd/config.toml", OF_DOCKER)
    machine.start_containerd()
    before = doctor(machine)
    (line,) = set(re.findall(r"write (disabled_plugins = \S+)", before))
    machine.write("/etc/containerd/config.toml", f"{line}\n")
    machine.start_containerd()

    assert "error    runtime" in before
    assert "ok       runtime" in doctor(machine)


@pytest.mark.parametrize("remedy", ["link", "line"])
def test_misplaced_plugins_are_found_by_the_doctor_and_its_remedies_help(machine: Apart, remedy: str) -> None:
    machine.write("/etc/containerd/config.toml", "version = 2\n")
    machine.must("rm", "-rf", "/opt/cni")
    machine.write("/etc/cni/net.d/10-bridge.conflist", network())
    machine.start_containerd()
    before = doctor(machine)
    (link, line, table) = re.findall(r"run `(.+?)`, or write (.+?) below (\[.+?\]) in ", before)[0]
    if remedy == "link":
        machine.must("sh", "-c", link)
    else:
        machine.write("/etc/containerd/config.toml", f"version = 2\n{table}\n{line}\n")
        machine.start_containerd()

    assert "error    network" in before
    assert "ok       network       ready, by 10-bridge.conflist" in doctor(machine)


def serve_stand_ins(machine: Apart, port: int) -> None:
    """Serve images for those of the page, and have containerd ask there for the sandbox's image, too."""
    tests = f"{TOP}/tests"
    log = f"PYTHONPATH={tests}:{TOP}/src exec {sys.executable} -m live.kit.private_registry {port} >/registry.log 2>&1"
    machine.start("sh", "-c", log)
    hosts = f'[host."http://127.0.0.1:{port}"]\ncapabilities = ["pull", "resolve"]\n'
    machine.write("/etc/containerd/certs.d/registry.k8s.io/hosts.toml", hosts)
    await_that(
        lambda: "ready" in machine.must("cat", "/registry.log"), 90, lambda: machine.must("cat", "/registry.log")
    )


def shop() -> images.Image:
    """An image that only a tar file has."""
    return images.Image(("docker.io/library/shop:1",), images.busybox_userland(), command=("sleep", "86400"))


def network() -> str:
    """The page's own pod network."""

    return files(PAGE)["/etc/cni/net.d/10-bridge.conflist"]


def doctor(machine: Apart) -> str:
    """What the doctor prints of that machine."""
    words = [sys.executable, "-m", "trikubelet", "doctor", "--", "--standalone", "--healthz-port=0", RUNTIME]
    return machine.run(*words).stdout
