"""Makes this checkout's agent ready to start in .venv, with the virtual environment's Python.

    build_agent.py           compile the Rust parts with cargo, and install; fails where no usable cargo is
                             (make .venv/.built: all tests, the gate and the releases)
    build_agent.py --to-try  the same if cargo is usable and can download; else take the compiled module of a
                             prebuilt wheel, else run on the plain-Python twins of the compiled parts, with a warning
                             (make run)

A wheel is `WHEEL=path`, or one in dist/release. Its module is used only if its Python files are those of this
checkout, because the two belong together. Neither way sets the stamp .venv/.built: the next `make run` looks for cargo
again, and the tests never run on anything but what was compiled here.
"""

from __future__ import annotations

import os
import platform
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import NoReturn, TextIO
from zipfile import BadZipFile, ZipFile

import usable_cargo
from usable_cargo import NoLinker, NotUsable, Version, spell

TOP = usable_cargo.TOP
VENV = TOP / ".venv"
STAMP = ".venv/.built"
LOG = VENV / "build.log"
PACKAGE = TOP / "src/trikubelet"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
TRY = "from trikubelet.core import compiled as c; print(c.BACKEND, c.PROBLEM)"
REPORT_SECONDS = 10
"""Seconds between two lines of progress where standard error is no terminal."""


def say(text: str) -> None:
    print(f"make: {text}", file=sys.stderr, flush=True)


def stop(text: str) -> NoReturn:
    raise SystemExit(f"make: error: {text}")


# ---- with cargo ----------------------------------------------------------------------------------------------------


def find_or_offer(needed: Version) -> Path:
    """The directory of a usable cargo, which root at a terminal may have installed here. Raises NotUsable."""
    try:
        return usable_cargo.find(needed)
    except NoLinker:
        raise
    except NotUsable as problem:
        if not (os.geteuid() == 0 and sys.stdin.isatty() and sys.stderr.isatty()):
            raise
        packages = usable_cargo.choose_packages(needed)
        if packages is None or not _agrees(needed, str(problem), packages):
            raise
    if subprocess.run(["apt-get", "install", "--yes", packages.cargo], check=False).returncode:
        raise NotUsable(f"apt-get could not install {packages.cargo} (see above)")
    return usable_cargo.find(needed)


def _agrees(needed: Version, problem: str, packages: usable_cargo.Packages) -> bool:
    removed = _removed_for(packages.cargo)
    instead = f", which takes the place of {', '.join(removed)}" if removed else ""
    say(f"no Rust {spell(needed)} or newer: {problem}")
    question = f"make: install {packages.cargo} {spell(packages.version)}{instead}, with apt-get? [y/N] "
    try:
        return input(question).strip().lower() in {"y", "yes"}
    except EOFError:
        return False


def _removed_for(package: str) -> list[str]:
    """The packages that apt removes when it installs this one."""
    words = ["apt-get", "install", "--simulate", package]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=os.environ | {"LC_ALL": "C"})
    return re.findall(r"^Remv (\S+)", done.stdout, re.MULTILINE)


GET_BUILD_TOOLS = (*PIP, "--quiet", "install", "--require-hashes", "-r", "requirements/build.txt")
GET_CRATES = ("cargo", "fetch", "--locked", "--quiet")


class NotDownloaded(NotUsable):
    """Something that the compilation needs could not be downloaded. The text says what."""

    def headline(self, needed: Version) -> str:
        del needed
        return f"what the relist is compiled with could not be downloaded: {self}"

    def remedy(self, needed: Version, programs: tuple[str, ...] = ()) -> str:
        del needed, programs
        return "start make again where PyPI and crates.io can be reached, or give WHEEL=path of a built wheel"


def download(cargo: Path) -> None:
    """Download what the compilation needs, as far as it is not here. Raises NotDownloaded."""
    environment = os.environ | {"PATH": usable_cargo.search_path(cargo)}
    for words in (GET_BUILD_TOOLS, GET_CRATES):
        done = subprocess.run(
            words, capture_output=True, text=True, errors="replace", check=False, cwd=TOP, env=environment
        )
        if done.returncode:
            said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
            raise NotDownloaded(said[-1] if said else f"{' '.join(words[:3])} ended with {done.returncode}")


def compile_and_install(cargo: Path) -> None:
    """Install the checkout in place, compiled. Raises SystemExit if that fails, after printing the whole log."""
    subprocess.run(GET_BUILD_TOOLS, check=True, cwd=TOP)
    # pip, even an old one, and not "maturin develop", which installs the dependency groups without their hashes.
    # With --verbose pip passes on what cargo prints while it prints it.
    words = [*PIP, "install", "--verbose", "--no-deps", "--no-index", "--no-build-isolation", "--editable", "."]
    path = f"{VENV / 'bin'}{os.pathsep}{usable_cargo.search_path(cargo)}"
    environment = os.environ | {"PATH": path, "MATURIN_PEP517_ARGS": "--locked", "PYTHONUNBUFFERED": "1"}
    say("compiling the relist, which takes half a minute on an idle machine")
    with LOG.open("w", encoding="utf-8", errors="replace") as log:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=TOP,
            env=environment,
        )
        lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        reader = threading.Thread(target=_read, args=(process, lines), daemon=True)
        reader.start()
        try:
            _show_progress(lines, log)
            code = process.wait()
        except BaseException:  # Ctrl-C, mostly: pip must not outlive this program
            process.terminate()
            process.wait()
            raise
    if code:
        sys.stderr.write(LOG.read_text())
        stop(f"the relist could not be compiled: pip ended with {code} (the lines above are also in {_short(LOG)})")
    if (backend := _backend()) != "rust":
        stop(f"what was compiled cannot be loaded: {backend}")


def _read(process: subprocess.Popen[str], lines: queue.SimpleQueue[str | None]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put(None)


def _show_progress(lines: queue.SimpleQueue[str | None], log: TextIO) -> None:
    """Write the lines to the log until their end, and show which crate is compiled and for how long it has gone on."""
    terminal = sys.stderr.isatty()
    began = shown = time.monotonic()
    crates, doing = 0, "starting"
    ended = False
    while not ended:
        try:
            line = lines.get(timeout=1)
        except queue.Empty:
            line = ""
        if line is None:
            ended = True
        elif line:
            log.write(line)
            if found := re.match(r"\s*(Updating|Downloading|Downloaded|Compiling) (.+)", line):
                crates += found[1] == "Compiling"
                doing = f"compiling {found[2]} (crate {crates})" if crates else f"{found[1].lower()} {found[2]}"
        now = time.monotonic()
        text = f"make: {now - began:3.0f} s: {doing}"
        if terminal:
            print("\r\033[K" + ("" if ended else text), end="", file=sys.stderr, flush=True)
        elif not ended and now - shown >= REPORT_SECONDS:
            shown = now
            print(text, file=sys.stderr, flush=True)
    say(f"compiled in {time.monotonic() - began:.0f} s")


# ---- without -------------------------------------------------------------------------------------------------------


def install_as_it_is() -> None:
    """Install the checkout in place without a compiler: a small wheel that refers to it, and the command.

    pip installs this wheel like the one that maturin makes, so that either can replace the other later.
    """
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    name, version = project["name"], project["version"]
    if _is_installed(name, version):
        return
    scripts = "".join(f"{command} = {entry}\n" for command, entry in project["scripts"].items())
    about = f"{name}-{version}.dist-info"
    files = {
        f"{name}.pth": f"{TOP / 'src'}\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: build_agent\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": f"[console_scripts]\n{scripts}",
    }
    # The hashes in a RECORD may be left out; pip writes the installed one anew, with them.
    record = "".join(f"{file},,\n" for file in (*files, f"{about}/RECORD"))
    with tempfile.TemporaryDirectory() as directory:
        wheel = Path(directory) / f"{name}-{version}-py3-none-any.whl"
        with ZipFile(wheel, "w") as made:
            for file, text in (files | {f"{about}/RECORD": record}).items():
                made.writestr(file, text)
        words = [*PIP, "--quiet", "install", "--no-index", "--no-deps", "--force-reinstall", str(wheel)]
        subprocess.run(words, check=True)


def _is_installed(name: str, version: str) -> bool:
    """True if an earlier run, or maturin, has installed this checkout and its command."""
    try:
        found = distribution(name)
    except PackageNotFoundError:
        return False
    way = Path(str(found.locate_file(f"{name}.pth")))
    refers = way.is_file() and way.read_text().strip() == str(TOP / "src")
    return refers and found.version == version and (VENV / "bin" / name).exists()


class NotThisCheckout(Exception):
    """A wheel whose compiled module cannot be used here. The text says why."""


def take_module(wheel: Path) -> None:
    """Copy the compiled module of a wheel next to the checkout's Python files. Raises NotThisCheckout."""
    here = {f"trikubelet/{path.relative_to(PACKAGE)}": path for path in PACKAGE.rglob("*.py")}
    try:
        with ZipFile(wheel) as archive:
            names = archive.namelist()
            there = {name for name in names if name.startswith("trikubelet/") and name.endswith(".py")}
            modules = [name for name in names if re.fullmatch(r"trikubelet/_relist\.[^/]*\.so", name)]
            differing = there ^ here.keys()
            differing |= {name for name in there & here.keys() if archive.read(name) != here[name].read_bytes()}
            if differing:
                raise NotThisCheckout(f"it was built from other files than these: {min(differing)} differs")
            if len(modules) != 1:
                raise NotThisCheckout("there is no compiled module in it")
            module = archive.read(modules[0])
    except (OSError, BadZipFile) as error:
        raise NotThisCheckout(f"it cannot be read: {error}") from error
    target = PACKAGE / Path(modules[0]).name
    # Renamed into place: a running agent may have the previous one mapped.
    fresh = target.with_name(f".{target.name}.new")
    fresh.write_bytes(module)
    fresh.replace(target)
    if (backend := _backend()) != "rust":
        target.unlink()
        raise NotThisCheckout(f"its compiled module cannot be loaded: {backend}")


def _backend() -> str:
    """Return what the agent would run on: "rust", or the reason why not."""
    environment = os.environ | {"PYTHONPATH": str(TOP / "src")}
    done = subprocess.run([sys.executable, "-c", TRY], capture_output=True, text=True, check=False, env=environment)
    said = (done.stdout or done.stderr).strip().splitlines() or [f"exit code {done.returncode}"]
    return said[-1].strip()


def forget_what_was_compiled() -> None:
    """Remove the stamp and the module, which older sources were compiled to, or which an earlier wheel gave."""
    (TOP / STAMP).unlink(missing_ok=True)
    for module in PACKAGE.glob("_relist.*.so"):
        module.unlink()


def prepare_without(needed: Version, problem: NotUsable) -> None:
    """Install the checkout with a wheel's module or none, and report which. Raises SystemExit for a bad WHEEL=."""
    forget_what_was_compiled()
    install_as_it_is()
    passed_over = ""
    given = os.environ.get("WHEEL")
    machine = platform.machine()
    for wheel in [Path(given)] if given else sorted((TOP / "dist/release").glob(f"trikubelet-*_{machine}.whl")):
        try:
            take_module(wheel)
        except NotThisCheckout as why:
            if given:
                stop(f"cannot use WHEEL={given}: {why}")
            passed_over = f"{_short(wheel)} was passed over: {why}"
        else:
            say(f"nothing was compiled here ({problem}); the compiled module is that of {_short(wheel)}")
            return
    say(f"warning: {problem.headline(needed)}")
    if passed_over:
        say(f"         {passed_over}")
    say("         The agent runs in plain Python instead, which does the same but slower. To have it compiled:")
    say(f"         {problem.remedy(needed)}")


def _short(path: Path) -> Path:
    return path.relative_to(TOP) if path.is_relative_to(TOP) else path


def make(*words: str) -> int:
    """Run make and return its exit code. It does not inherit the flags of the make that started this program."""
    inherited = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MFLAGS", "MAKELEVEL"}}
    return subprocess.run(["make", "--no-print-directory", *words], check=False, cwd=TOP, env=inherited).returncode


def prepare_to_try(needed: Version) -> int:
    """Return the exit code. What is already built is used without a cargo: sudo leaves ~/.cargo/bin out of PATH."""
    if make("--question", STAMP) == 0:
        return 0
    try:
        download(find_or_offer(needed))
    except NotUsable as problem:
        if code := make("--silent", ".venv/.runtime"):
            return code
        prepare_without(needed, problem)
        return 0
    return make(STAMP)


def main(words: list[str]) -> int:
    needed = usable_cargo.minimum()
    if words == ["--to-try"]:
        return prepare_to_try(needed)
    try:
        cargo = find_or_offer(needed)
    except NotUsable as problem:
        stop(f"cannot compile the relist: {problem.headline(needed)}: {problem.remedy(needed)}")
    compile_and_install(cargo)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
    except subprocess.CalledProcessError as failed:
        sys.exit(f"make: error: {' '.join(map(str, failed.cmd[:5]))} … ended with {failed.returncode} (see above)")
