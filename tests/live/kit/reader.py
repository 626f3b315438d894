"""A reader of a page, who types at a shell what the page shows and compares what is printed.

Called by the tests of the pages. The program ``trikubelet`` that the reader's shell finds keeps its files in a
directory of the test; addresses, tokens, sockets and places of a page are replaced by those of the test. Output is
compared without what differs from run to run, and a command is repeated until it prints what the page shows.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from shell.docskit import TOP, Shown, blocks, files
from trikubelet.cli.verbs import VERBS, options, parser_of

from . import places
from .daemon import await_that
from .network import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

ROOT = "/var/lib/trikubelet"
KUBECTL_PORT = "6440"
_VARIES = re.compile(
    r"\b\d+(s|m|h|d|Mi|m\d+s)?\b|\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|[AP]M)\b"
    r"|\(\S+ ago\)|/\S+/manifests"
)
_HEADER = re.compile(r"^[IWE]\d{4} \S+ +\d+ (\S+?):?\d*\] ", re.MULTILINE)
"""Of a line of a log, all but the file it comes from varies."""
SECONDS_MAX = 60.0
PROGRAM = """#!/bin/sh
case "$1" in
-*) exec {python} -m trikubelet "$@" --root-dir={root} --hostname-override=vm --healthz-port=0 {more} ;;
{verbs}) verb=$1; shift; exec {python} -m trikubelet "$verb" --root-dir={root} "$@" ;;
*) exec {python} -m trikubelet "$@" ;;
esac
"""


def _here(command: Iterable[str]) -> list[str]:
    return list(command)


def _kubectl(page: Path) -> list[str]:
    """The directory with kubectl, for a page that calls it. Raises NotInstalled."""
    calls = any(shown.command.startswith("kubectl ") for block in blocks(page) for shown in block.shown)
    return [str(places.control_plane())] if calls else []


class Reader:
    """Somebody at a shell, in a directory of his own with the page's files. ``instead``: what he types for what a page
    shows; ``configuration``: fields that an agent of his needs beside what the page says; ``inside``: where he is;
    ``write``: how he writes a file of the page, which by default goes into his directory; ``terminate``: how SIGTERM
    reaches what he started."""

    def __init__(
        self,
        page: Path,
        directory: Path,
        instead: Mapping[str, str] | None = None,
        configuration: Mapping[str, Any] | None = None,
        inside: Callable[[Iterable[str]], list[str]] = _here,
        write: Callable[[str, str], None] | None = None,
        terminate: Callable[[subprocess.Popen[bytes]], None] = subprocess.Popen.terminate,
    ) -> None:
        self.directory = directory
        self.inside = inside
        self._terminate = terminate
        self._run: list[subprocess.Popen[bytes]] = []
        self.root = directory / "root"
        asking = [verb for verb in VERBS if any("--root-dir" in one.names for one in options(parser_of(verb)))]
        programs = directory / ".venv/bin"
        programs.mkdir(parents=True)
        program = programs / "trikubelet"
        more = f"--config-dir={self._drop_in(configuration)}" if configuration else ""
        program.write_text(PROGRAM.format(python=sys.executable, root=self.root, verbs="|".join(asking), more=more))
        program.chmod(0o755)
        (directory / "examples").symlink_to(TOP / "examples")
        (directory / "manifests").mkdir()
        self.instead = {ROOT: str(self.root), KUBECTL_PORT: str(free_port()), **(instead or {})}
        for name, text in files(page).items():
            (write or self._write)(name, self._mine(text))
        (directory / ".curlrc").write_text("fail\n")  # an answer that says no is no success
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(programs), *_kubectl(page), os.environ["PATH"]]),
            "HOME": str(directory),
            "NO_PROXY": "*",
        }

    def _write(self, name: str, text: str) -> None:
        (self.directory / name).write_text(text)

    def _drop_in(self, configuration: Mapping[str, Any]) -> Path:
        """A directory of ``--config-dir`` with these fields."""
        made = self.directory / "kubelet.conf.d"
        made.mkdir()
        what = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", **configuration}
        (made / "10-test.conf").write_text(yaml.safe_dump(what))
        return made

    def _mine(self, text: str) -> str:
        """What a page shows as it is typed here."""
        for shown, mine in self.instead.items():
            text = text.replace(shown, mine)
        return text

    def command(self, shown: Shown) -> list[str]:
        """A command as it is typed here; what a shell was told before counts on."""
        text = self._mine(shown.command)
        profile = self.directory / ".profile"
        if text.startswith("export "):
            with profile.open("a") as file:
                file.write(f"{text}\n")
        return self.inside(["sh", "-c", f"cd {self.directory}; test -e {profile} && . {profile}; {text}"])

    def do(self, shown: Shown) -> subprocess.CompletedProcess[str]:
        """Type one command, to its end."""
        return subprocess.run(
            self.command(shown),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )

    def follow(self, shown: Shown, mark: str) -> None:
        """Type one command until it does what the page shows."""
        until = time.monotonic() + SECONDS_MAX
        while True:
            done = self.do(shown)
            said = done.stdout if mark == "run" else done.stderr
            as_shown = not shown.output or _plain(shown.output) == _plain(said)
            if as_shown and (done.returncode == 0) == (mark == "run"):
                return
            assert time.monotonic() < until, (shown, done, self.log())
            time.sleep(0.3)

    def start(self, shown: Shown) -> None:
        """The page's agent, once it can be asked and has said what the page shows. ``make run`` prints the command it
        carries out."""
        command, output = shown.command, shown.output
        if command.startswith("make "):
            command, _, output = output.partition("\n")
        self.beside(command)
        await_that((self.root / "trikubelet.sock").exists, 60, self.log)
        await_that(lambda: _is_told(output, self.log().replace(str(self.root), ROOT)), 60, self.log)

    def beside(self, command: str) -> None:
        """Something that runs from now on, as its first word shows."""
        path = self.directory / f"{len(self._run)}.log"
        with path.open("wb") as log:
            line = self.command(Shown(f"exec {command}", ""))
            process = subprocess.Popen(line, env=self.environment, stdout=log, stderr=log)
        self._run.append(process)
        if " hollow " not in command:  # which says nothing where nothing is wrong
            await_that(lambda: path.stat().st_size > 0, 60, self.log)

    def read(self, page: Path) -> None:
        """Do what the page shows, from its top to its end."""
        for block in blocks(page):
            for shown in block.shown:
                if block.mark == "run: agent":
                    self.start(shown)
                elif block.mark == "run: beside":
                    self.beside(shown.command)
                elif block.mark in ("run", "run: fails"):
                    self.follow(shown, block.mark)

    def end(self) -> None:
        """All that runs beside has run until now, and ends well; what was begun last first."""
        codes = []
        while self._run:
            process = self._run.pop()
            codes.append(process.poll())
            self._terminate(process)
            codes.append(process.wait(60))
        assert [None, 0] * (len(codes) // 2) == codes, self.log()

    def log(self) -> str:
        """What was said by all that runs beside."""
        return "".join(path.read_text(errors="replace") for path in sorted(self.directory.glob("*.log")))


def _is_told(shown: str, said: str) -> bool:
    """Whether the lines that are shown were said in that order. ``...`` stands for others, which stand between them."""
    told = iter(_plain(_HEADER.sub(r"\1: ", said)))
    wanted = _plain(_HEADER.sub(r"\1: ", shown))
    return all(line in told for line in wanted if line != "...")


def _plain(text: str) -> list[str]:
    """Lines without what varies: numbers, ages, dates, widths and the test's own directory."""
    return [" ".join(_VARIES.sub("*", line).split()) for line in text.strip().splitlines()]


@contextmanager
def reading(reader: Reader) -> Iterator[Reader]:
    """What is started for the length of the block ends with it."""
    try:
        yield reader
    finally:
        reader.end()
