"""What dpkg and rpm run after files came or went (`packaging/packages/*.sh`), on a machine whose root is a directory.

The program, Python and systemctl are scripts that write down what they were told. `live/test_packages.py` has dpkg.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

TOP = Path(__file__).parents[3]
TOLD = """#!/bin/sh
echo "$(basename "$0") $*${PYTHONPATH:+ of ${PYTHONPATH#*/trikubelet/}}" >>"$TOLD"
"""
TRIED, RESET = (
    "python3 -P -m trikubelet --v=0 --help of {}/site-packages",
    "python3 -P -m trikubelet reset --keep-unknown-pods --root-dir={} of {}/site-packages",
)


class Machine:
    """One where trikubelet was installed, and where systemd runs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cache = root / "var/cache/trikubelet"
        for directory in (root / "run/systemd/system", root / "usr/bin", root / "proc", self.cache):
            directory.mkdir(parents=True)
        for tool in (
            "basename",
            "find",
            "grep",
            "ls",
            "readlink",
            "rm",
        ):  # and nothing else: there may be a kubelet beside them
            (root / "usr/bin" / tool).symlink_to(shutil.which(tool) or tool)
        self.program("trikubelet")
        self.program("python3")
        self.program("systemctl", '[ "$1" != cat ]')

    def program(self, name: str, then: str = "") -> None:
        """One that writes down what it is told, and does this then."""
        made = self.root / "usr/bin" / name
        made.write_text(f"{TOLD}{then}\n")
        made.chmod(0o755)

    def record(self, name: str, runtime: str = "") -> Path:
        """An agent had its pods in that root directory, which is returned."""
        root_dir = self.root / "var/lib" / name
        (root_dir / "pods").mkdir(parents=True)
        (root_dir / "runtime-endpoint").write_text(f"{runtime}\n")
        return root_dir

    def unpacked(self, name: str, age_seconds: int) -> None:
        """A version that lies in the cache since then."""
        (self.cache / name / "site-packages").mkdir(parents=True)
        os.utime(self.cache / name, (10**9 - age_seconds,) * 2)

    def run(self, script: str, *words: str) -> subprocess.CompletedProcess[str]:
        """A script to its end, however it ends."""
        text = (TOP / "packaging/packages" / script).read_text()
        for top in ("/usr/bin/", "/var/cache/", "/var/lib/", "/run/systemd/", "/proc/"):
            text = text.replace(top, f"{self.root}{top}")
        own = {"PATH": f"{self.root}/usr/bin", "TOLD": f"{self.root}/told"}
        line = ["/bin/sh", "-c", text, script, *words]
        return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False, env=own)

    def told(self) -> list[str]:
        """Return the calls of the programs, oldest first."""
        told = self.root / "told"
        return told.read_text().splitlines() if told.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_copies_in_use_or_being_unpacked_stay(machine: Machine) -> None:
    for name in ("trikubelet_old", "trikubelet_mapped", "trikubelet_new.tmp"):
        machine.unpacked(name, 60)
    locks = {f".trikubelet_{name}_lock" for name in ("old", "mapped", "new")}
    for name in locks:
        (machine.cache / name).touch()
    (machine.root / "proc/17").mkdir()
    mapped = machine.cache / "trikubelet_mapped/site-packages/_relist.abi3.so"
    (machine.root / "proc/17/maps").write_text(f"7f00-7f01 r-xp 0 08:01 9 {mapped}\n")

    assert 0 == machine.run("postinstall.sh", "configure").returncode
    left = {"trikubelet_mapped", "trikubelet_new.tmp", *locks - {".trikubelet_old_lock"}}
    assert left == set(os.listdir(machine.cache))


def test_what_cannot_be_the_agent_does_not_take_the_place_of_the_one_that_runs(machine: Machine) -> None:
    machine.program("trikubelet", '[ "$*" != "--v=0 --help" ]')

    done = machine.run("postinstall.sh", "configure")

    assert 1 == done.returncode
    assert "this version does not start on this machine" in done.stderr
    assert ["trikubelet --v=0 --help"] == machine.told()


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("configure",), True),
        (("configure", ""), True),
        (("1",), True),
        (("configure", "0.1.0-1"), False),
        (("2",), False),
    ],
)
def test_a_new_installation_prints_the_next_step_and_an_upgrade_does_not(
    words: tuple[str, ...], shown: bool, machine: Machine
) -> None:
    done = machine.run("postinstall.sh", *words)

    assert (0, "") == (done.returncode, done.stderr)
    assert shown == ("then: systemctl enable --now trikubelet\n" in done.stdout)
    assert "this machine has a kubelet" not in done.stdout


def test_a_new_installation_beside_a_kubelet_warns_that_the_unit_stops_it(machine: Machine) -> None:
    machine.program("kubelet")

    assert "this machine has a kubelet, which that stops" in machine.run("postinstall.sh", "configure", "").stdout


def test_the_packaged_configuration_names_no_runtime_and_the_directory_of_the_package() -> None:
    given = yaml.safe_load((TOP / "packaging/packages/config.yaml").read_text())
    package = yaml.safe_load((TOP / "packaging/packages/trikubelet.yaml").read_text())

    assert "containerRuntimeEndpoint" not in given
    assert {"/etc/kubernetes/manifests": "dir"}.items() <= {
        one["dst"]: one["type"] for one in package["contents"] if "type" in one
    }.items()
    assert "/etc/kubernetes/manifests" == given["staticPodPath"]


def test_a_compiled_module_that_cannot_be_loaded_is_found_by_what_an_upgrade_tries(tmp_path: Path) -> None:
    (tmp_path / "msgspec").mkdir()
    (tmp_path / "msgspec/__init__.py").write_text("from ._core import *\n")
    (tmp_path / f"msgspec/_core{sysconfig.get_config_var('EXT_SUFFIX')}").write_text("torn")
    own = {"PYTHONPATH": f"{tmp_path}:{TOP}/src", "PATH": "/usr/bin:/bin"}
    line = [sys.executable, "-m", "trikubelet", "--v=0", "--help"]

    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False, env=own)

    assert (1, "") == (done.returncode, done.stdout)
    assert f"{tmp_path}/msgspec/_core" in done.stderr.splitlines()[-1]


def test_a_purge_ends_pods_by_the_newest_version_that_is_whole(machine: Machine) -> None:
    for name, age_seconds in (("a_old", 60), ("b_new", 20), ("c_torn", 10), ("d_part.tmp", 0)):
        machine.unpacked(f"trikubelet_{name}", age_seconds)
    machine.program("python3", 'case "$* $PYTHONPATH" in *help*torn*) exit 1 ;; esac')
    roots = [machine.record(name) for name in ("kubelet", "trikubelet")]

    done = machine.run("postremove.sh", "purge")

    assert (0, "") == (done.returncode, done.stderr)
    tried = [TRIED.format("trikubelet_c_torn"), TRIED.format("trikubelet_b_new")]
    tried += [RESET.format(root, "trikubelet_b_new") for root in roots]
    assert ["systemctl cat kubelet.service", *tried, "systemctl daemon-reload"] == machine.told()
    assert not machine.cache.exists()


def test_a_purge_where_no_agent_has_recorded_its_runtime_ends_nothing_and_starts_nothing(machine: Machine) -> None:
    machine.unpacked("trikubelet_1", 0)

    done = machine.run("postremove.sh", "purge")

    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    assert ["systemctl daemon-reload"] == machine.told()
    assert not machine.cache.exists()


@pytest.mark.parametrize("recorded", ["embedded:", "fake:", "", None])
def test_a_purge_removes_the_whole_directory_of_embedded_pods_beside_a_kubelet_too(
    recorded: str | None, machine: Machine
) -> None:
    machine.unpacked("trikubelet_1", 0)
    root = machine.record("trikubelet", recorded or "")
    if recorded is None:  # the pods were reset before
        (root / "runtime-endpoint").unlink()
    machine.program("kubelet")

    done = machine.run("postremove.sh", "purge")

    assert (0, "") == (done.returncode, done.stderr)
    assert not root.exists()


@pytest.mark.parametrize("kept", [None, "pki/kubelet.crt"])
@pytest.mark.parametrize("name", ["kubelet", "trikubelet"])
def test_a_purge_removes_the_agents_files_beside_a_runtime_and_no_credentials(
    name: str, kept: str | None, machine: Machine
) -> None:
    machine.unpacked("trikubelet_1", 0)
    root = machine.record(name, "unix:///run/containerd/containerd.sock")
    machine.program("python3", f'case "$*" in *reset*) rm "{root}/runtime-endpoint" ;; esac')
    (root / "trikubelet.lock").touch()
    (root / "image_manager/pulled").mkdir(parents=True)
    if kept:
        (root / kept).parent.mkdir()
        (root / kept).touch()

    done = machine.run("postremove.sh", "purge")

    assert (0, "") == (done.returncode, done.stderr)
    left = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()} if root.exists() else None
    assert ({kept} if kept else None) == left


@pytest.mark.parametrize("known_by", ["kubelet", "systemctl"])
def test_a_purge_leaves_the_pods_of_an_installed_kubelet_alone(machine: Machine, known_by: str) -> None:
    machine.unpacked("trikubelet_1", 0)
    machine.record("kubelet")
    machine.program(known_by)

    done = machine.run("postremove.sh", "purge")

    assert 0 == done.returncode
    assert "pods were left alone: this machine has a kubelet, whose pods these may be; to end them, " in done.stderr
    assert [] == [line for line in machine.told() if line.startswith("python3")]
    assert not machine.cache.exists()


@pytest.mark.parametrize("failing", ["reset", "help"])
def test_a_purge_that_cannot_end_pods_says_so_and_goes_on(machine: Machine, failing: str) -> None:
    machine.unpacked("trikubelet_1", 0)
    root = machine.record("trikubelet")
    machine.program("python3", f'case "$*" in *{failing}*) exit 1 ;; esac')

    done = machine.run("postremove.sh", "purge")

    assert 0 == done.returncode
    why, flag = ("see above", f" --root-dir={root}") if failing == "reset" else ("nothing that starts is left in ", "")
    assert f"trikubelet: pods were left alone: {why}" in done.stderr
    assert done.stderr.endswith(f"install trikubelet again and run: trikubelet reset{flag}\n")
    assert not machine.cache.exists()


def test_removing_leaves_pods_and_what_a_purge_needs(machine: Machine) -> None:
    machine.unpacked("trikubelet_1", 0)

    assert 0 == machine.run("postremove.sh", "remove").returncode
    assert ["systemctl daemon-reload"] == machine.told()
    assert ["trikubelet_1"] == os.listdir(machine.cache)
