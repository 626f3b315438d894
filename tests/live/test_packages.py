"""The packages as dpkg installs, upgrades, removes and purges them, on a copy of this machine that is thrown away.

What of them needs a systemd that runs is not shown here but that it is told the right things; `test_upgrade.py` has an
agent's upgrade with real containers. Of the rpm only the contents are looked at.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from live.kit import packages, places
from live.kit.daemon import await_that
from live.kit.throwaway import Throwaway
from shell.docskit import PAGES, blocks
from trikubelet import __version__
from trikubelet.app.release import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

FILES = {
    "/usr/bin/trikubelet",
    "/usr/lib/systemd/system/trikubelet.service",
    "/etc/trikubelet/config.yaml",
    "/etc/trikubelet/kubernetes-version",
    "/etc/default/trikubelet",
    "/usr/share/man/man8/trikubelet.8.gz",
    "/usr/share/bash-completion/completions/trikubelet",
    "/usr/share/fish/vendor_completions.d/trikubelet.fish",
    "/usr/share/doc/trikubelet/copyright",
}
DOC = "/usr/share/doc/trikubelet"
GUIDES = {
    f"{DOC}/{path.relative_to(packages.TOP)}"
    for pattern in (
        "docs/*.md",
        "docs/*.svg",
        "docs/decisions/*.md",
        "examples/manifests/**/*.yaml",
        "examples/systemd/*",
    )
    for path in packages.TOP.glob(pattern)
} | {f"{DOC}/{name}.md" for name in ("README", "CHANGELOG", "SECURITY")}
FIRST_STEPS = {"deb": f"{DOC}/README.Debian", "rpm": f"{DOC}/README.rpm"}
DIRECTORIES = {"/etc/trikubelet", "/etc/kubernetes", "/etc/kubernetes/manifests"}
KUBELETS = {"/usr/bin/kubelet", "/usr/lib/systemd/system/kubelet.service"}
ZSH = {"deb": "/usr/share/zsh/vendor-completions/_trikubelet", "rpm": "/usr/share/zsh/site-functions/_trikubelet"}
THROWAWAY = "run: throwaway"
UNPACKED = "/var/cache/trikubelet"


@pytest.fixture
def machine() -> Iterator[Throwaway]:
    with Throwaway() as made:
        for name in ("trikubelet", "trikubelet-kubelet"):
            made.write(f"/{name}.deb", packages.package(name, "deb").read_bytes())
        yield made


def later(machine: Throwaway, directory: Path) -> None:
    """Puts a later version of the package there."""
    machine.write(
        "/later.deb", packages.make_later_package(packages.package("trikubelet", "deb"), directory).read_bytes()
    )


def unpacked(machine: Throwaway) -> set[str]:
    return set(machine.must("ls", UNPACKED).split())


@pytest.mark.parametrize("kind", ["deb", "rpm"])
def test_each_package_holds_what_it_should_and_nothing_else(kind: str) -> None:
    places.program("bsdtar")

    def contents(name: str) -> set[str]:
        listing = "bsdtar -xOf {} 'data.tar*' | bsdtar -tf -" if kind == "deb" else "bsdtar -tf {}"
        asked = listing.format(packages.package(name, kind))
        told = subprocess.run(["sh", "-c", asked], capture_output=True, text=True, check=True).stdout
        # Only in a deb the names of directories end so.
        return {line.removeprefix(".") for line in told.splitlines() if not line.endswith("/")} - DIRECTORIES

    assert FILES | GUIDES | {ZSH[kind], FIRST_STEPS[kind]} == contents("trikubelet")
    assert KUBELETS == contents("trikubelet-kubelet")


def test_the_checksums_are_of_every_artefact_and_the_list_of_parts_names_what_is_inside() -> None:
    sums = (packages.RELEASE / "SHA256SUMS").read_text().split()
    there = {path.name: path for path in packages.RELEASE.iterdir() if path.name != "SHA256SUMS"}
    assert {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in there.items()} == dict(
        zip(sums[1::2], sums[0::2], strict=True)
    )

    listed = json.loads(there[f"{packages.single_file().name}.cdx.json"].read_text())
    assert ("trikubelet", __version__) == (
        listed["metadata"]["component"]["name"],
        listed["metadata"]["component"]["version"],
    )
    kinds = {part["name"]: part["purl"].partition("/")[0] for part in listed["components"]}
    assert {"trio": "pkg:pypi", "pyo3": "pkg:cargo", "openssl": "pkg:generic"}.items() <= kinds.items()


def test_an_installation_starts_nothing_and_the_command_works(machine: Throwaway) -> None:
    machine.pretend_systemd()
    machine.must("dpkg", "--install", "/trikubelet.deb")

    assert ["daemon-reload", "--no-block try-restart trikubelet.service"] == machine.systemd_was_told()
    assert f"trikubelet {__version__}\n" == machine.must("trikubelet", "--version")
    assert 1 == len(unpacked(machine))  # by the installation; the command found it
    assert "" == machine.run("systemd-analyze", "verify", "--man=no", "trikubelet.service").stderr


def test_without_a_container_runtime_the_installed_agent_runs_an_example(machine: Throwaway) -> None:
    """What README.Debian shows, with the unit's command in place of systemctl."""
    machine.must("dpkg", "--install", "/trikubelet.deb")
    machine.must("cp", f"{DOC}/examples/manifests/greeter.yaml", "/etc/kubernetes/manifests/")
    unit = machine.must("cat", "/usr/lib/systemd/system/trikubelet.service")
    (command,) = (line.removeprefix("ExecStart=") for line in unit.splitlines() if line.startswith("ExecStart="))
    # The network is the machine's, whose port 10248 may be taken.
    machine.start("sh", "-c", f". /etc/default/trikubelet; exec {command} --healthz-port=0")

    def listed() -> str:
        return machine.run("trikubelet", "get", "pods").stdout

    await_that(lambda: "Running" in listed(), 60, listed)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if THROWAWAY in {block.mark for block in blocks(page)}], ids=lambda page: page.name
)
def test_what_a_page_shows_of_packages_installs_them_and_has_systemd_start_them(machine: Throwaway, page: Path) -> None:
    """apt is let alone with what it would ask and fetch."""
    machine.pretend_systemd()
    machine.write("/etc/apt/apt.conf.d/99-test", 'APT::Get::Assume-Yes "true";\nAPT::Install-Recommends "false";\n')
    machine.must("mkdir", "-p", "/dist/release")
    for name in ("trikubelet", "trikubelet-kubelet"):
        for directory in ("", "/dist/release"):
            machine.must("cp", f"/{name}.deb", f"{directory}/{packages.package(name, 'deb').name}")

    for block in blocks(page):
        for shown in block.shown if block.mark == THROWAWAY else ():
            machine.must("sh", "-c", f"cd / && {shown.command.replace('VERSION', __version__)}")

    services = {
        word for told in machine.systemd_was_told() if told.startswith("enable --now ") for word in told.split()
    }
    assert "trikubelet" in services
    assert ("kubelet" in services) is machine.there("/usr/bin/kubelet")


def test_an_upgrade_restarts_the_agent_keeps_the_configuration_and_what_still_runs(
    machine: Throwaway, tmp_path: Path
) -> None:
    machine.pretend_systemd()
    machine.must("dpkg", "--install", "/trikubelet.deb")
    before = unpacked(machine)
    machine.start("trikubelet", "fake-runtime", "--socket=/run/fake.sock")  # somebody who runs from what is unpacked
    await_that(lambda: machine.there("/run/fake.sock"), 60, lambda: "nothing serves the socket")
    machine.write("/etc/default/trikubelet", "TRIKUBELET_FLAGS=--v=2\n")
    machine.systemd_was_told()

    later(machine, tmp_path)
    machine.must("dpkg", "--install", "/later.deb")

    assert ["daemon-reload", "--no-block try-restart trikubelet.service"] == machine.systemd_was_told()
    assert f"trikubelet {packages.LATER}\n" == machine.must("trikubelet", "--version")
    assert "TRIKUBELET_FLAGS=--v=2\n" == machine.must("cat", "/etc/default/trikubelet")
    assert before < unpacked(machine)
    assert 2 == len(unpacked(machine))

    machine.stop()
    machine.must("dpkg", "--install", "/later.deb")
    assert 1 == len(unpacked(machine) - before) == len(unpacked(machine))


def test_a_version_that_cannot_start_here_leaves_the_agent_running(machine: Throwaway) -> None:
    machine.pretend_systemd()
    machine.must("dpkg", "--install", "/trikubelet.deb")
    machine.systemd_was_told()
    machine.write("/usr/local/bin/python3", '#!/bin/sh\necho "no such Python" >&2\nexit 1\n', 0o755)

    done = machine.run(
        "env", "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "dpkg", "--install", "/trikubelet.deb"
    )

    assert 0 != done.returncode
    assert "this version does not start on this machine" in done.stderr
    assert [] == machine.systemd_was_told()


def test_removed_it_leaves_the_configuration_purged_it_leaves_nothing(machine: Throwaway) -> None:
    machine.pretend_systemd()
    machine.must("dpkg", "--install", "/trikubelet.deb")
    machine.systemd_was_told()

    machine.must("dpkg", "--remove", "trikubelet")
    assert ["--no-reload disable --now trikubelet.service", "daemon-reload"] == machine.systemd_was_told()
    assert [True, False] == [machine.there(path) for path in ("/etc/trikubelet/config.yaml", "/usr/bin/trikubelet")]

    machine.must("dpkg", "--purge", "trikubelet")
    left = [path for path in (*FILES, ZSH["deb"], UNPACKED, "/etc/trikubelet") if machine.there(path)]
    assert [] == left


@pytest.mark.parametrize(
    ("root_dir", "recorded"),
    [("kubelet", "unix:///run/containerd/containerd.sock"), ("trikubelet", "embedded:")],
    ids=["containerd is away", "embedded"],
)
def test_a_purge_after_an_agent_without_pods_is_done_with_the_runtime_away_or_not(
    root_dir: str, recorded: str, machine: Throwaway
) -> None:
    machine.must("dpkg", "--install", "/trikubelet.deb")
    machine.must("mkdir", "-p", f"/var/lib/{root_dir}")
    machine.write(f"/var/lib/{root_dir}/runtime-endpoint", f"{recorded}\n")

    done = machine.run("dpkg", "--purge", "trikubelet")

    assert (0, False) == (done.returncode, machine.there(f"/var/lib/{root_dir}/runtime-endpoint"))
    assert "pods were left alone" not in done.stderr


def test_a_purge_leaves_the_pods_of_a_kubelet_that_was_put_back_alone(machine: Throwaway) -> None:
    machine.must("dpkg", "--install", "/trikubelet.deb")
    machine.write("/var/lib/kubelet/runtime-endpoint", "unix:///run/fake.sock\n")
    machine.write("/usr/bin/kubelet", "#!/bin/sh\n", 0o755)

    done = machine.run("dpkg", "--purge", "trikubelet")

    assert (0, True) == (done.returncode, machine.there("/var/lib/kubelet/runtime-endpoint"))
    assert "pods were left alone: this machine has a kubelet" in done.stderr


def test_where_no_systemd_runs_all_of_it_works_and_systemd_is_told_nothing(machine: Throwaway, tmp_path: Path) -> None:
    machine.pretend_systemd()
    machine.must("rm", "-r", "/run/systemd")
    later(machine, tmp_path)
    for words in (("--install", "/trikubelet.deb"), ("--install", "/later.deb"), ("--purge", "trikubelet")):
        machine.must("dpkg", *words)

    assert [] == machine.systemd_was_told()


def test_the_kubelets_place_is_taken_by_a_package_of_its_own(machine: Throwaway) -> None:
    machine.pretend_systemd()
    machine.must("dpkg", "--install", "/trikubelet.deb", "/trikubelet-kubelet.deb")

    assert f"Kubernetes {VERSION}\n" == machine.must("kubelet", "--version")
    assert "" == machine.run("systemd-analyze", "verify", "--man=no", "kubelet.service").stderr
    machine.systemd_was_told()
    machine.must("dpkg", "--install", "/trikubelet.deb")
    restarts = [f"--no-block try-restart {name}.service" for name in ("trikubelet", "kubelet")]
    assert ["daemon-reload", *restarts] == machine.systemd_was_told()

    machine.must("dpkg", "--purge", "trikubelet-kubelet")
    assert ["--no-reload disable --now kubelet.service"] == machine.systemd_was_told()
    assert not machine.there("/usr/bin/kubelet")
    assert f"trikubelet {__version__}\n" == machine.must("trikubelet", "--version")


def test_the_wheel_gives_the_same_command_in_a_fresh_environment(tmp_path: Path) -> None:
    python, command = tmp_path / "bin/python", tmp_path / "bin/trikubelet"
    subprocess.run([sys.executable, "-m", "venv", tmp_path], check=True)
    install = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    subprocess.run([*install, "--require-hashes", "-r", packages.TOP / "requirements/runtime.txt"], check=True)
    subprocess.run([*install, "--no-deps", packages.built(f"*_{os.uname().machine}.whl")], check=True)

    def said(*words: str | Path) -> str:
        own = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        return subprocess.run(words, capture_output=True, text=True, check=True, env=own).stdout

    assert f"trikubelet {__version__}\n" == said(command, "--version")
    assert "rust\n" == said(python, "-c", "from trikubelet.core.compiled import BACKEND; print(BACKEND)")
    assert "" == said(command, "validate", "--quiet", *sorted(packages.TOP.glob("examples/manifests/*.yaml")))
