"""``make run`` and ``make .venv/.built`` in a checkout of the test's own: the real Makefile and
``packaging/build_agent.py`` over a package of a few lines, whose build backend stands in for maturin. Nothing is
downloaded."""

from __future__ import annotations

import contextlib
import os
import pty
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pip
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).parents[3]
MODULE = "_relist.abi3.so"
OLD, NEW = "1.65.0", "1.85.0"
MAIN = """
import sys
from trikubelet.core.compiled import BACKEND
def main():
    print("agent:", BACKEND, *sys.argv[1:2])
"""
PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "trikubelet"
version = "0.1.0"
[project.scripts]
trikubelet = "trikubelet.cli.main:main"
"""
BACKEND = """
import os, shutil, subprocess, sys, zipfile
def get_requires_for_build_editable(settings=None): return []
def build_editable(directory, settings=None, metadata=None):
    print("   Compiling relist v0.1.0", flush=True)
    subprocess.run(["cargo", "build", os.environ["MATURIN_PEP517_ARGS"]], check=True)
    name = "trikubelet-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(directory, name), "w") as wheel:
        wheel.writestr("trikubelet.pth", os.path.abspath("src"))
        about = "trikubelet-0.1.0.dist-info/"
        wheel.writestr(about + "METADATA", "Metadata-Version: 2.1\\nName: trikubelet\\nVersion: 0.1.0\\n")
        wheel.writestr(about + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(about + "entry_points.txt", "[console_scripts]\\ntrikubelet = trikubelet.cli.main:main\\n")
        wheel.writestr(about + "RECORD", "")
    return name
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform != "linux" or shutil.which("make") is None, reason="no make"),
]


class Checkout:
    """One whose .venv has what the agent needs, on a machine with no cargo until ``rust`` gives it one."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.package = place / "src/trikubelet"
        self.bin = place / "programs"
        for file in ("Makefile", "packaging/build_agent.py", "packaging/usable_cargo.py", "rust/relist/Cargo.toml"):
            self.write(file, (TOP / file).read_text())
        self.write("pyproject.toml", PROJECT)
        self.write("backend.py", BACKEND)
        for file in ("Cargo.toml", "Cargo.lock", "requirements/runtime.txt", "requirements/build.txt"):
            self.write(file, "")
        self.write("src/trikubelet/cli/main.py", MAIN)
        self.write("src/trikubelet/core/compiled.py", (TOP / "src/trikubelet/core/compiled.py").read_text())
        for name in ("sh", "env", "touch", "make", "python3"):
            self.bin.mkdir(exist_ok=True)
            (self.bin / name).symlink_to(shutil.which(name) or name)
        self.program("cc")
        venv.create(place / ".venv")
        # Copied, which is faster than installing it. (A link would go with the first uninstallation: to pip the
        # directory it stands in would hold nothing else.)
        site = next((place / ".venv/lib").glob("python3.*/site-packages"))
        shutil.copytree(Path(pip.__file__).parent, site / "pip")
        (place / ".venv/.runtime").touch()

    def write(self, name: str, text: str) -> None:
        file = self.place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def program(self, name: str, script: str = "") -> None:
        self.write(f"programs/{name}", f"#!/bin/sh\n{script}\n")
        (self.bin / name).chmod(0o755)

    def rust(self, version: str, script: str = "", fetch: str = ":") -> None:
        """Puts a cargo on PATH that runs ``script``, by default one that copies the real compiled module, and ``fetch``
        where it is to download."""
        built = script or f"PATH={os.defpath}; cp {TOP / 'src/trikubelet' / MODULE} {self.package / MODULE}"
        self.program(
            "cargo",
            f'[ "$1" != --version ] || {{ echo cargo {version}; exit; }}\n'
            f'[ "$1" != fetch ] || {{ {fetch}; exit; }}\n{built}',
        )
        self.program("rustc", f"echo rustc {version}")

    def wheel(self, name: str, module: bytes | None = None) -> Path:
        """A wheel of the files that are here now, with the real compiled module."""
        target = self.place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with ZipFile(target, "w") as made:
            for file in self.package.rglob("*.py"):
                made.write(file, str(file.relative_to(self.place / "src")))
            made.writestr(f"trikubelet/{MODULE}", module or (TOP / "src/trikubelet" / MODULE).read_bytes())
        return target

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": str(self.bin), "HOME": str(self.place)}

    def make(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.bin / "make"), "-C", str(self.place), *words]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=240, check=False)

    def make_on_a_terminal(self, answer: str, *words: str) -> str:
        """Return the output until make ends, with this answer to its question."""
        ours, theirs = pty.openpty()
        command = [str(self.bin / "make"), "-C", str(self.place), *words]
        with subprocess.Popen(command, env=self.environment, stdin=theirs, stdout=theirs, stderr=theirs) as process:
            os.close(theirs)
            os.write(ours, f"{answer}\n".encode())  # the terminal keeps it until it is read
            shown = b""
            with contextlib.suppress(OSError):  # the other end is closed
                while read := os.read(ours, 65536):
                    shown += read
            os.close(ours)
            assert 0 == process.wait(60), shown
        return shown.decode()

    @property
    def stamped(self) -> bool:
        return (self.place / ".venv/.built").exists()

    def reset(self) -> None:
        for path in (self.place / ".venv/.built", self.package / MODULE, self.bin / "cargo", self.bin / "rustc"):
            path.unlink(missing_ok=True)
        shutil.rmtree(self.place / "dist", ignore_errors=True)
        self.write("src/trikubelet/cli/main.py", MAIN)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return Checkout(tmp_path_factory.mktemp("checkout"))


@pytest.fixture
def checkout(made: Checkout) -> Iterator[Checkout]:
    made.reset()
    yield made
    made.reset()


WARNING = "make: warning: no Rust 1.83 or newer: "
STARTED = "agent: {} --standalone"


@pytest.mark.parametrize(("version", "problem"), [("", "cargo is missing"), (OLD, "/cargo is 1.65.0")])
def test_without_a_usable_cargo_the_agent_runs_on_the_twin_and_every_start_warns(
    version: str, problem: str, checkout: Checkout
) -> None:
    if version:
        checkout.rust(version)
    for _ in range(2):
        done = checkout.make("run")

        assert 0 == done.returncode, done.stderr
        assert STARTED.format("python") in done.stdout
        assert (1, True) == (done.stderr.count("warning: "), problem in done.stderr), done.stderr
        assert WARNING in done.stderr
    assert not checkout.stamped


@pytest.mark.parametrize("version", ["", OLD])
def test_the_tests_never_accept_the_twin(version: str, checkout: Checkout) -> None:
    checkout.wheel("dist/release/trikubelet-0.1.0-cp311-abi3-manylinux2014_x86_64.whl")
    if version:
        checkout.rust(version)
    checkout.make("run")
    for chore in (".venv/.built", "test"):
        done = checkout.make(chore)

        assert 2 == done.returncode
        assert "make: error: cannot compile the relist: no Rust 1.83 or newer: " in done.stderr
        assert "Traceback" not in done.stderr
    assert not checkout.stamped


def test_with_a_usable_cargo_it_is_compiled_once(checkout: Checkout) -> None:
    checkout.make("run")  # on the twin, whose installation the compiled one replaces
    checkout.rust(NEW)
    done = checkout.make("run")

    assert 0 == done.returncode, done.stderr
    assert STARTED.format("rust") in done.stdout
    assert "make: compiled in " in done.stderr
    assert checkout.stamped

    (checkout.bin / "cargo").unlink()  # as for root by sudo, where the user has it from rustup
    done = checkout.make("run")
    assert (0, "") == (done.returncode, done.stderr)
    assert STARTED.format("rust") in done.stdout


def test_older_compiled_modules_are_not_used_without_cargo(checkout: Checkout) -> None:
    checkout.rust(NEW)
    checkout.make("run")
    for name in ("cargo", "rustc"):
        (checkout.bin / name).unlink()
    newer = (checkout.place / ".venv/.built").stat().st_mtime + 10
    os.utime(checkout.place / "Cargo.lock", (newer, newer))
    try:
        done = checkout.make("run")
    finally:
        os.utime(checkout.place / "Cargo.lock", (0, 0))

    assert STARTED.format("python") in done.stdout, done.stderr
    assert not checkout.stamped


def test_a_failed_compilation_prints_its_log_and_starts_nothing(checkout: Checkout) -> None:
    checkout.rust(NEW, "echo 'error: linking failed' >&2; exit 101")
    done = checkout.make("run")

    assert 2 == done.returncode
    assert "error: linking failed" in done.stderr
    assert "make: error: the relist could not be compiled: pip ended with 1 " in done.stderr
    assert "agent:" not in done.stdout
    assert not checkout.stamped


def test_a_first_try_where_crates_cannot_be_downloaded_runs_on_the_twin_and_the_tests_fail(checkout: Checkout) -> None:
    checkout.rust(NEW, "exit 101", fetch="echo 'error: crates are out of reach' >&2; exit 101")
    tried, tested = checkout.make("run"), checkout.make(".venv/.built")

    assert STARTED.format("python") in tried.stdout, tried.stderr
    told = "make: warning: what the relist is compiled with could not be downloaded: error: crates are out of reach\n"
    assert told in tried.stderr
    assert 2 == tested.returncode
    assert not checkout.stamped


def test_a_missing_linker_is_not_taken_for_a_missing_rust(checkout: Checkout) -> None:
    checkout.rust(NEW)
    (checkout.bin / "cc").unlink()
    try:
        done = checkout.make("run")
    finally:
        checkout.program("cc")

    assert STARTED.format("python") in done.stdout, done.stderr
    assert "make: warning: cc is missing, which links what cargo compiles\n" in done.stderr
    assert "apt-get install gcc libc6-dev" in done.stderr
    assert "no Rust" not in done.stderr


def test_a_module_of_another_interface_is_an_error(checkout: Checkout) -> None:
    checkout.rust(NEW, f"echo >{checkout.package / MODULE}")
    done = checkout.make(".venv/.built")

    assert 2 == done.returncode
    assert "make: error: what was compiled cannot be loaded: " in done.stderr
    assert not checkout.stamped


@pytest.mark.parametrize("given", [True, False])
def test_the_module_of_a_wheel_of_this_very_checkout_is_taken(given: bool, checkout: Checkout) -> None:
    directory = "elsewhere" if given else "dist/release"
    wheel = checkout.wheel(f"{directory}/trikubelet-0.1.0-cp311-abi3-manylinux2014_{os.uname().machine}.whl")
    done = checkout.make("run", *([f"WHEEL={wheel}"] if given else []))

    assert 0 == done.returncode, done.stderr
    assert STARTED.format("rust") in done.stdout
    assert "make: nothing was compiled here (cargo is missing); the compiled module is that of " in done.stderr
    assert not checkout.stamped


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("edit", "it was built from other files than these: trikubelet/cli/main.py differs"),
        ("add", "it was built from other files than these: trikubelet/cli/more.py differs"),
        ("module", "its compiled module cannot be loaded: "),
        ("file", "it cannot be read: File is not a zip file"),
    ],
)
def test_a_wheel_of_other_sources_is_passed_over_and_refused_when_named(
    change: str, why: str, checkout: Checkout
) -> None:
    name = f"dist/release/trikubelet-0.1.0-cp311-abi3-manylinux2014_{os.uname().machine}.whl"
    wheel = checkout.wheel(name, b"no module" if change == "module" else None)
    more = checkout.package / "cli/more.py"
    if change == "edit":
        checkout.write("src/trikubelet/cli/main.py", MAIN + "# edited\n")
    elif change == "add":
        more.touch()
    elif change == "file":
        wheel.write_text("no zip")
    done = checkout.make("run")
    refused = checkout.make("run", f"WHEEL={wheel}")
    more.unlink(missing_ok=True)

    assert STARTED.format("python") in done.stdout, done.stderr
    assert f"{name} was passed over: {why}" in done.stderr
    assert not (checkout.package / MODULE).exists()
    assert 2 == refused.returncode
    assert f"make: error: cannot use WHEEL={wheel}: {why}" in refused.stderr


OFFERED = """
case $1 in
    pkgnames) echo cargo-web;;
    policy) printf 'cargo-web:\\n  Candidate: 1.85.0+dfsg3-1~deb12u3\\n';;
esac
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is asked")
@pytest.mark.parametrize("answer", ["y", "n"])
def test_root_at_a_terminal_is_asked_before_a_package_is_installed(answer: str, checkout: Checkout) -> None:
    checkout.program("apt-cache", OFFERED)
    build = f"PATH={os.defpath}; cp {TOP / 'src/trikubelet' / MODULE} {checkout.package / MODULE}"
    cargo = f'#!/bin/sh\n[ "$1" != --version ] || {{ echo cargo {NEW}; exit; }}\n{build}\n'
    checkout.write("later/cargo", cargo)
    installs = f"PATH={os.defpath}; cp {checkout.place}/later/cargo {checkout.bin}/cargo; chmod +x {checkout.bin}/cargo"
    rustc = f"printf '#!/bin/sh\\necho rustc {NEW}\\n' >{checkout.bin}/rustc; chmod +x {checkout.bin}/rustc"
    simulated = "case $* in *--simulate*) echo 'Remv cargo [0.66.0]'; exit;; esac"
    checkout.program("apt-get", f'{simulated}\necho "apt-get $*" >&2\n{installs}\n{rustc}')
    try:
        said = checkout.make_on_a_terminal(answer, "run")
    finally:
        for name in ("apt-cache", "apt-get"):
            (checkout.bin / name).unlink()

    assert "make: no Rust 1.83 or newer: cargo is missing" in said
    assert "make: install cargo-web 1.85.0, which takes the place of cargo, with apt-get? [y/N] " in said
    assert (answer == "y") == ("apt-get install --yes cargo-web" in said)
    assert STARTED.format("rust" if answer == "y" else "python") in said
    assert 1 == said.count("[y/N]")
