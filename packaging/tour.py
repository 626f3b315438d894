"""Draws docs/tour.svg: what a terminal shows of an agent that runs examples/manifests.

    python packaging/tour.py [--check]

An agent is started on its embedded runtime, in a temporary root directory, and the commands of the picture are run on a
terminal of their own until they show what the picture is about. Ages and dates are then replaced by fixed ones, and
nothing else is: every run draws the same file. ``--check`` compares and ends with 1 when the picture is not what the
commands show. `make tour` runs it.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from terminal_picture import SGR, picture

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE: Final = Path(__file__).resolve().parent.parent
EXAMPLES: Final = HERE / "examples" / "manifests"
PICTURE: Final = HERE / "docs" / "tour.svg"
TITLE: Final = "A terminal: trikubelet shows its pods, the page of a web server, a log, and the fault of a manifest"
NODE: Final = "demo"
PORT: Final = 8080
WAIT_SECONDS_MAX: Final = 90.0
COLUMNS: Final = 100
CURL: Final = (
    "import sys, urllib.request as http; print(http.urlopen(sys.argv[1], timeout=30).read().decode(), end='')\n"
)
"""For a machine without curl."""
BROKEN: Final = "broken.yaml"
BROKEN_TEXT: Final = """\
apiVersion: v1
kind: Pod
metadata:
  name: broken
spec:
  containers:
    - name: hello
      image: host
      comand: ["echo", "hello"]
"""
MOMENT: Final = "Sat Nov 21 10:16:41 UTC 2026"


@dataclass(frozen=True)
class Shown:
    """One command of the picture, and the pattern that its output matches once it is worth showing."""

    command: str
    wanted: str


TOUR: Final = (
    Shown(
        "trikubelet get pods",
        r"(?s)crashing-demo +0/1 +CrashLoopBackOff .*greeter-demo +1/1 +Running .*"
        r"job-demo +0/1 +Completed .*web-demo +2/2 +Running ",
    ),
    Shown(f"curl http://127.0.0.1:{PORT}/", r"it is "),
    Shown("trikubelet logs crashing-demo --previous", r"starting, and about to fail"),
    Shown(f"trikubelet validate {BROKEN}", r"comand"),
)


class Failed(Exception):
    """The picture cannot be drawn."""


def steady(output: str) -> str:
    """The output with fixed ages and dates, and with the columns of a table aligned anew."""
    dated = re.sub(r"it is .*", f"it is {MOMENT}", output)
    rows = [re.split(r" {3,}", line.rstrip()) for line in dated.splitlines()]
    if rows[0][0] != "NAME":
        return dated
    for row in rows[1:]:
        row[-2:] = [re.sub(r"^\d+ \(.* ago\)$", "1 (2s ago)", row[-2]), "7s"]
    widths = [max(len(SGR.sub("", row[column])) for row in rows) for column in range(len(rows[0]))]
    return "".join(_aligned(row, widths).rstrip() + "\n" for row in rows)


def _aligned(row: list[str], widths: list[int]) -> str:
    cells = (cell + " " * (width - len(SGR.sub("", cell))) for cell, width in zip(row, widths, strict=True))
    return "   ".join(cells)


def on_terminal(words: list[str], *, directory: Path, environment: dict[str, str]) -> str:
    """What the command shows on a terminal of its own."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    with subprocess.Popen(
        words, cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    ) as command:
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 65536):
                shown += part
        except OSError:  # how a terminal ends whose last writer has gone
            pass
        finally:
            os.close(ours)
        try:
            command.wait(WAIT_SECONDS_MAX)
        finally:
            command.kill()
    return shown.decode(errors="replace").replace("\r\n", "\n")


def shown_by(tour: tuple[Shown, ...], *, directory: Path, environment: dict[str, str], port: int) -> str:
    """The text of the whole picture. Raises Failed when a command does not show in time what is wanted of it."""
    text = ""
    for one in tour:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        words = one.command.replace(f":{PORT}/", f":{port}/").split()
        while True:
            output = on_terminal(words, directory=directory, environment=environment)
            if re.search(one.wanted, SGR.sub("", output)):
                break
            if time.monotonic() > deadline:
                raise Failed(f"{one.command!r} did not show {one.wanted!r}: {output}")
            time.sleep(0.3)
        text += f"\x1b[32m$\x1b[0m \x1b[1m{one.command}\x1b[0m\n{steady(output)}"
    return text


@contextmanager
def agent(program: Path, home: Path, port: int) -> Iterator[dict[str, str]]:
    """An agent that runs the examples below ``home``; the environment in which its client finds it."""
    manifests, runtime = home / "manifests", home / "runtime"
    shutil.copytree(EXAMPLES, manifests, ignore=shutil.ignore_patterns("containerd"))
    web = manifests / "web.yaml"
    web.write_text(web.read_text().replace(str(PORT), str(port)))
    runtime.mkdir(mode=0o700)
    (home / "config.yaml").write_text(
        f"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\npodLogsDir: {home}/logs\n"
    )
    environment = {
        "HOME": str(home),
        "PATH": f"{home / 'bin'}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "XDG_RUNTIME_DIR": str(runtime),
    }
    (home / "bin").mkdir()
    wrapper = home / "bin" / "trikubelet"
    wrapper.write_text(
        f'#!/bin/sh\nverb=$1; shift\n[ "$verb" != validate ] || exec {program} validate "$@"\n'
        f'exec {program} "$verb" --root-dir={home}/root "$@"\n'
    )
    wrapper.chmod(0o755)
    if shutil.which("curl", path=environment["PATH"]) is None:
        stand_in = home / "bin" / "curl"
        stand_in.write_text(f"#!{sys.executable}\n{CURL}")
        stand_in.chmod(0o755)
    words = ["--standalone", "--container-runtime-endpoint=embedded:", f"--pod-manifest-path={manifests}"]
    words += [f"--root-dir={home}/root", f"--config={home}/config.yaml", "--healthz-port=0"]
    words += [f"--hostname-override={NODE}"]
    log = home / "agent.log"
    with (
        log.open("wb") as written,
        subprocess.Popen([program, *words], env=environment, stdout=written, stderr=written) as running,
    ):
        try:
            yield environment
        except Failed as error:
            raise Failed(f"{error}\n{log.read_text()[-4000:]}") from error
        finally:
            running.send_signal(signal.SIGTERM)
            try:
                running.wait(WAIT_SECONDS_MAX)
            finally:
                running.kill()
            _forget_links(home)


def _forget_links(home: Path) -> None:
    """Root's agents leave links to logs in the place where log collectors look for them."""
    for link in Path("/var/log/containers").glob(f"*-{NODE}_*.log"):
        if os.readlink(link).startswith(str(home)):
            link.unlink()


def drawn() -> str:
    """The picture, from a run of the agent that is installed beside this interpreter."""
    program = Path(sys.executable).parent / "trikubelet"
    with tempfile.TemporaryDirectory(prefix="trikubelet-tour-") as made, socket.create_server(("127.0.0.1", 0)) as free:
        home, port = Path(made), free.getsockname()[1]
        free.close()
        (home / BROKEN).write_text(BROKEN_TEXT)
        with agent(program, home, port) as environment:
            text = shown_by(TOUR, directory=home, environment=environment, port=port)
    return picture(text.replace(f":{port}/", f":{PORT}/"), title=TITLE)


def main() -> int:
    """Draw, or compare; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 on a difference")
    asked = parser.parse_args()
    try:
        wanted = drawn()
    except Failed as error:
        sys.stderr.write(f"tour: cannot draw docs/tour.svg: {error}\n")
        return 1
    if not asked.check:
        PICTURE.write_text(wanted)
        return 0
    if PICTURE.exists() and PICTURE.read_text() == wanted:
        return 0
    sys.stderr.write("tour: docs/tour.svg is not what the commands show: run make tour\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
