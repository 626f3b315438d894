#!/usr/bin/env python3
"""Finds a cargo that is new enough to compile this checkout, and names the packages to install where there is none.

    usable_cargo.py COMMAND...   run a command with a PATH on which that cargo comes first
    usable_cargo.py --path       print that PATH; rustfmt and clippy must be there, too
    usable_cargo.py --packages   print the packages that bring cargo, rustfmt and clippy (read from apt's lists)

The version that is needed is `rust-version` in rust/relist/Cargo.toml. Distributions install several: Debian 12 has
cargo 0.66 in the package `cargo` and a newer one in `cargo-web`; Ubuntu has `cargo-1.85`, outside of PATH. `.ci/run`
calls this with the system's Python, so it uses nothing outside the standard library.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
ROOT = Path("/")
GATE = ("cargo-fmt", "cargo-clippy")
"""Needed by lint, and packages of their own in Debian and Ubuntu."""
ANSWER_SECONDS_MAX = 60
RUSTUP = "https://rustup.rs"

Version = tuple[int, ...]


class NotUsable(Exception):
    """No cargo here can compile this checkout. The text says what was found."""

    def headline(self, needed: Version) -> str:
        """Return what is wrong, in one line."""
        return f"no Rust {spell(needed)} or newer: {self}"

    def remedy(self, needed: Version, programs: tuple[str, ...] = ()) -> str:
        """Return what to do, in one line. ``programs``: those that are needed besides cargo, if any."""
        return advise(needed, programs)


class NoLinker(NotUsable):
    """There is a usable cargo, but not the program that links what it compiles."""

    def headline(self, needed: Version) -> str:
        del needed
        return str(self)

    def remedy(self, needed: Version, programs: tuple[str, ...] = ()) -> str:
        del needed, programs
        return f"{sudo()}apt-get install gcc libc6-dev (or what your distribution calls them)"


@dataclass(frozen=True)
class Packages:
    """The packages that apt offers: the one with cargo, and those with rustfmt and clippy."""

    cargo: str
    version: Version
    others: tuple[str, str]


def minimum(top: Path = TOP) -> Version:
    """The oldest Rust that compiles this checkout."""
    manifest = (top / "rust/relist/Cargo.toml").read_text()
    found = re.search(r'^rust-version *= *"([0-9.]+)"', manifest, re.MULTILINE)
    assert found, "rust/relist/Cargo.toml has no rust-version"
    return parse(found[1])


def parse(text: str) -> Version:
    """The first version number in a text, or () if there is none."""
    found = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def spell(version: Version) -> str:
    return ".".join(map(str, version))


def find(needed: Version, programs: tuple[str, ...] = ()) -> Path:
    """Return the directory of the first cargo that is new enough, with a rustc as new and the other ``programs``.

    Raises NotUsable, which names each cargo that was found and why it cannot be used.
    """
    problems: dict[str, None] = {}
    for directory in _directories():
        if shutil.which("cargo", path=str(directory)) is None:
            continue
        problem = _problem(directory, needed, programs)
        if not problem:
            if shutil.which("cc") is None:
                raise NoLinker("cc is missing, which links what cargo compiles")
            return directory
        problems[problem] = None
    raise NotUsable("; ".join(problems) or "cargo is missing")


def _directories() -> list[Path]:
    """Return the places where a cargo may be: on PATH, then where rustup and Ubuntu's versioned packages install it,
    newest first."""
    on_path = [Path(part) for part in os.environ.get("PATH", os.defpath).split(os.pathsep) if part]
    rustup = Path(os.environ.get("CARGO_HOME") or Path("~/.cargo").expanduser()) / "bin"
    versioned = sorted(ROOT.glob("usr/lib/rust-*/bin"), key=lambda path: parse(path.parent.name), reverse=True)
    # /bin is often a link to /usr/bin.
    return list({path.resolve(): path for path in reversed((*on_path, rustup, *versioned))}.values())[::-1]


def _problem(directory: Path, needed: Version, programs: tuple[str, ...]) -> str:
    """Why the cargo in a directory cannot be used, or ""."""
    path = search_path(directory)
    for program in ("cargo", "rustc"):
        found = shutil.which(program, path=path)
        if found is None:
            return f"{directory}/cargo has no {program} next to it"
        said = _ask(found, path)
        if not (version := parse(said)):
            return f"{found} does not start: {said}"
        if version < needed:
            return f"{found} is {spell(version)}"
    missing = [program for program in programs if shutil.which(program, path=path) is None]
    return f"{directory}/cargo has no {' and no '.join(missing)} next to it" if missing else ""


def _ask(program: str, path: str) -> str:
    """Return the first line that a program prints for --version, or the reason of an error."""
    try:
        done = subprocess.run(
            [program, "--version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=ANSWER_SECONDS_MAX,
            env=os.environ | {"PATH": path},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}"
    if done.returncode == 0:
        return next(iter(done.stdout.splitlines()), "")
    # rustup without a toolchain prints an example here that contains a version number.
    said = next(iter(done.stderr.splitlines()), f"exit code {done.returncode}")
    return re.sub(r"\d+(?:\.\d+)+", "…", said)


def search_path(directory: Path) -> str:
    """PATH, with a directory before the others unless its cargo is the first already.

    The rustc that cargo starts is the first on PATH. In front of a virtual environment, /usr/bin would hide its Python.
    """
    path = os.environ.get("PATH", os.defpath)
    return path if shutil.which("cargo", path=path) == str(directory / "cargo") else f"{directory}{os.pathsep}{path}"


# ---- what to install -----------------------------------------------------------------------------------------------


def choose_packages(needed: Version) -> Packages | None:
    """The package that brings a new enough cargo, by apt's lists, or None.

    The distribution's own name is preferred, then Debian's `cargo-web`, then the newest of Ubuntu's `cargo-1.NN`.
    """
    names = [name for name in _apt_cache("pkgnames", "cargo") if re.fullmatch(r"cargo(-web|-\d+\.\d+)?", name)]
    offered = _candidates(names)
    usable = [name for name in names if offered.get(name, ()) >= needed]
    if not usable:
        return None
    best = min(usable, key=lambda name: (name != "cargo", name != "cargo-web", [-part for part in parse(name)]))
    suffix = best.removeprefix("cargo")
    clippy = "rust-clippy" if not suffix else f"rust{suffix}-clippy"
    return Packages(best, offered[best], (f"rustfmt{suffix}", clippy))


def _candidates(names: list[str]) -> dict[str, Version]:
    """The version of each package that apt would install."""
    offered: dict[str, Version] = {}
    current = ""
    for line in _apt_cache("policy", *names) if names else ():
        if not line.startswith(" "):
            current = line.rstrip(":")
        elif line.startswith("  Candidate:"):
            offered[current] = parse(line)
    return offered


def _apt_cache(*words: str) -> list[str]:
    if shutil.which("apt-cache") is None:
        return []
    environment = os.environ | {"LC_ALL": "C"}
    done = subprocess.run(["apt-cache", *words], capture_output=True, text=True, check=False, env=environment)
    return done.stdout.splitlines()


def sudo() -> str:
    """Return what stands before a command that needs root."""
    return "" if os.geteuid() == 0 else "sudo "


def advise(needed: Version, programs: tuple[str, ...] = ()) -> str:
    """Return the remedy for a missing cargo, in one line. ``programs``: those that are needed besides it, if any."""
    if packages := choose_packages(needed):
        names = [packages.cargo, *(packages.others if programs else ())]
        return f"{sudo()}apt-get install {' '.join(names)} (it is {spell(packages.version)})"
    if shutil.which("apt-cache") and not _apt_cache("pkgnames", "cargo"):
        return f"{sudo()}apt-get update, and start make again: it then names the package; or take Rust from {RUSTUP}"
    return f"install Rust {spell(needed)} or newer: by your distribution, or from {RUSTUP}"


def main(words: list[str]) -> int:
    needed = minimum()
    if words == ["--packages"]:
        if (packages := choose_packages(needed)) is None:
            print(f"error: apt has no cargo {spell(needed)} or newer: {advise(needed)}", file=sys.stderr)
            return 1
        print(packages.cargo, *packages.others)
        return 0
    programs = GATE if words == ["--path"] else ()
    try:
        path = search_path(find(needed, programs))
    except NotUsable as problem:
        print(f"error: {problem.headline(needed)}: {problem.remedy(needed, programs)}", file=sys.stderr)
        return 1
    if words == ["--path"]:
        print(path)
    else:
        os.execvpe(words[0], words, os.environ | {"PATH": path})
    return 0


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(f"{__doc__}")
    sys.exit(main(sys.argv[1:]))
