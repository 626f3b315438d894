"""``packaging/usable_cargo.py``: which cargo compiles the checkout, and which package brings one. The programs it asks
(cargo, rustc, apt-cache) are scripts in directories of the test's own."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType

PROGRAM = Path(__file__).parents[3] / "packaging/usable_cargo.py"
NEEDED = (1, 83)


@pytest.fixture
def usable_cargo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("usable_cargo", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look it up there
    spec.loader.exec_module(module)
    return module


class Machine:
    """One with directories of programs, of which ``usr/bin`` is on PATH."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.program("usr/bin/cc")

    def program(self, name: str, script: str = "") -> None:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    def rust(self, directory: str, cargo: str, rustc: str = "") -> None:
        self.program(f"{directory}/cargo", f"echo 'cargo {cargo} (f2d3ce0bd 2026-03-21)'")
        self.program(f"{directory}/rustc", f"echo 'rustc {rustc or cargo}'")

    def apt(self, **versions: str) -> None:
        """Has apt's lists offer these packages (``_`` stands for ``-``, ``__`` for a dot)."""
        names = {name.replace("__", ".").replace("_", "-"): version for name, version in versions.items()}
        policy = "".join(f"{name}:\n  Installed: (none)\n  Candidate: {of}\n" for name, of in names.items())
        listed = "".join(f"{name}\n" for name in names)
        script = f"case $1 in pkgnames) printf %s '{listed}';; policy) printf %s '{policy}';; esac"
        self.program("usr/bin/apt-cache", script)


@pytest.fixture
def machine(tmp_path: Path, usable_cargo: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("PATH", f"{tmp_path}/usr/bin")
    monkeypatch.setenv("HOME", f"{tmp_path}/home")
    monkeypatch.delenv("CARGO_HOME", raising=False)
    monkeypatch.setattr(usable_cargo, "ROOT", tmp_path)
    return Machine(tmp_path)


def test_the_minimum_is_that_of_the_crate(usable_cargo: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "rust/relist").mkdir(parents=True)
    (tmp_path / "rust/relist/Cargo.toml").write_text('[package]\nedition = "2021"\nrust-version = "1.99"\n')

    assert (1, 99) == usable_cargo.minimum(tmp_path)
    assert (1, 80) < usable_cargo.minimum()


def test_a_new_enough_cargo_on_path_leaves_path_as_it_is(machine: Machine, usable_cargo: ModuleType) -> None:
    machine.rust("usr/bin", "1.83.0")

    assert machine.root / "usr/bin" == (found := usable_cargo.find(NEEDED))
    assert os.environ["PATH"] == usable_cargo.search_path(found)


@pytest.mark.parametrize("directory", ["home/.cargo/bin", "usr/lib/rust-1.85/bin"])
def test_one_outside_of_path_is_found_and_put_first(directory: str, machine: Machine, usable_cargo: ModuleType) -> None:
    machine.rust("usr/bin", "1.75.0")
    machine.rust("usr/lib/rust-1.80/bin", "1.80.1")
    machine.rust(directory, "1.85.1")

    assert machine.root / directory == (found := usable_cargo.find(NEEDED))
    assert f"{found}:{os.environ['PATH']}" == usable_cargo.search_path(found)


def test_the_newest_of_several_versioned_ones_is_taken(machine: Machine, usable_cargo: ModuleType) -> None:
    for version in ("1.85", "1.100", "1.91"):
        machine.rust(f"usr/lib/rust-{version}/bin", f"{version}.0")

    assert machine.root / "usr/lib/rust-1.100/bin" == usable_cargo.find(NEEDED)


@pytest.mark.parametrize(
    ("programs", "said"),
    [
        ({}, "cargo is missing"),
        ({"cargo": "echo cargo 1.65.0", "rustc": "echo rustc 1.63.0"}, "{}/cargo is 1.65.0"),
        ({"cargo": "echo cargo 1.85.0", "rustc": "echo rustc 1.63.0"}, "{}/rustc is 1.63.0"),
        ({"cargo": "echo cargo 1.85.0"}, "{}/cargo has no rustc next to it"),
        (
            {"cargo": "echo 'error: rustup could not choose a version (as 1.99.0)' >&2; exit 1"},
            "{}/cargo does not start: error: rustup could not choose a version (as …)",
        ),
        ({"cargo": "exit 3"}, "{}/cargo does not start: exit code 3"),
    ],
)
def test_a_cargo_that_cannot_be_used_is_named_with_the_reason(
    programs: dict[str, str], said: str, machine: Machine, usable_cargo: ModuleType
) -> None:
    for name, script in programs.items():
        machine.program(f"usr/bin/{name}", script)

    with pytest.raises(usable_cargo.NotUsable) as problem:
        usable_cargo.find(NEEDED)
    assert said.format(machine.root / "usr/bin") == str(problem.value)


def test_cc_and_the_programs_of_lint_are_asked_for(machine: Machine, usable_cargo: ModuleType) -> None:
    machine.rust("usr/bin", "1.85.0")
    with pytest.raises(usable_cargo.NotUsable, match=r"has no cargo-fmt and no cargo-clippy next to it$"):
        usable_cargo.find(NEEDED, usable_cargo.GATE)

    (machine.root / "usr/bin/cc").unlink()
    with pytest.raises(usable_cargo.NotUsable, match=r"^cc is missing, which links what cargo compiles$") as problem:
        usable_cargo.find(NEEDED)
    assert "apt-get install gcc libc6-dev" in problem.value.remedy(NEEDED)


DEBIAN_12: dict[str, Any] = {"cargo": "0.66.0+ds1-1", "cargo_web": "1.85.0+dfsg3-1~deb12u3", "cargo_doc": "0.66.0"}
UBUNTU_24_04: dict[str, Any] = {
    "cargo": "1.75.0+dfsg0ubuntu1-0ubuntu7.1",
    "cargo_1__82": "1.82.0+dfsg0ubuntu0-0ubuntu0",
    "cargo_1__83": "1.83.0-1",
    "cargo_1__85": "1.85.1+dfsg0ubuntu2~bpo0-0ubuntu0.24.04",
}


@pytest.mark.parametrize(
    ("offered", "expected"),
    [
        (DEBIAN_12, ["cargo-web", "rustfmt-web", "rust-web-clippy"]),
        (UBUNTU_24_04, ["cargo-1.85", "rustfmt-1.85", "rust-1.85-clippy"]),
        ({"cargo": "1.85.0+dfsg3-1", "cargo_1__99": "1.99"}, ["cargo", "rustfmt", "rust-clippy"]),
    ],
)
def test_the_package_that_brings_a_new_enough_cargo_is_named(
    offered: dict[str, str], expected: list[str], machine: Machine, usable_cargo: ModuleType
) -> None:
    machine.apt(**offered)

    found = usable_cargo.choose_packages(NEEDED)
    assert expected == [found.cargo, *found.others]
    assert f"apt-get install {expected[0]} (it is {usable_cargo.spell(found.version)})" in usable_cargo.advise(NEEDED)
    assert f"apt-get install {' '.join(expected)} (" in usable_cargo.advise(NEEDED, usable_cargo.GATE)


@pytest.mark.parametrize(
    ("offered", "advice"),
    [
        ({"cargo": "0.66.0"}, "install Rust 1.83 or newer: by your distribution, or from https://rustup.rs"),
        ({}, "apt-get update, and start make again"),  # a fresh container has no lists
        (None, "install Rust 1.83 or newer: by your distribution, or from https://rustup.rs"),
    ],
)
def test_without_such_a_package_the_advice_is_another(
    offered: dict[str, str] | None, advice: str, machine: Machine, usable_cargo: ModuleType
) -> None:
    if offered is not None:
        machine.apt(**offered)

    assert usable_cargo.choose_packages(NEEDED) is None
    assert advice in usable_cargo.advise(NEEDED)
