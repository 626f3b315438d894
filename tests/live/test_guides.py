"""The commands of README and guides do what the pages show, as a reader would type them: on the embedded runtime, on
the fake one, on a containerd, and in a cluster.

A page is followed from its top: its files are written, its agent is started, and its commands are run in their order.
What one prints is compared with what is shown but for what differs from run to run; until it is so, a reader waits
and asks again. The program ``trikubelet`` that is found is told, beside what the page says, to keep its files in a
directory of the test; addresses, tokens, sockets and places of a page are exchanged for those of the test.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from live.kit import places
from live.kit.daemon import await_that
from live.kit.network import free_port
from shell.docskit import PAGES, TOP, Shown, blocks, files
from trikubelet.cli.verbs import VERBS, options, parser_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from live.kit.containerd import Containerd
    from live.kit.control_plane import ControlPlane

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def _is_ours(mark: str) -> bool:
    """Whether these tests run a block that is so marked."""
    return mark.startswith("run") and mark != "run: throwaway"


RUN = [page for page in PAGES if any(_is_ours(block.mark) for block in blocks(page))]
FAKE, JOINING, HOLLOW = (TOP / "docs" / name for name in ("fake-runtime.md", "joining.md", "hollow-nodes.md"))
ALONE = [page for page in RUN if page not in (FAKE, JOINING, HOLLOW)]
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


class Reader:
    """Somebody at a shell, in a directory of his own with the page's files. ``instead``: what he types for what a page
    shows; ``configuration``: fields that an agent of his needs beside what the page says; ``inside``: where he is."""

    def __init__(
        self,
        page: Path,
        directory: Path,
        instead: Mapping[str, str] | None = None,
        configuration: Mapping[str, Any] | None = None,
        inside: Callable[[Iterable[str]], list[str]] = _here,
    ) -> None:
        self.directory = directory
        self.inside = inside
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
            (directory / name).write_text(self._mine(text))
        (directory / ".curlrc").write_text("fail\n")  # an answer that says no is no success
        self.environment = {
            **os.environ,
            "PATH": f"{programs}:{places.control_plane()}:{os.environ['PATH']}",
            "HOME": str(directory),
            "NO_PROXY": "*",
        }

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
            process.send_signal(signal.SIGTERM)
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


@pytest.fixture
def directory() -> Iterator[Path]:
    """With a short name, for a Unix socket is in it."""
    with tempfile.TemporaryDirectory(prefix="tk-") as made:
        yield Path(made)


@contextmanager
def reading(reader: Reader) -> Iterator[Reader]:
    """What is started for the length of the block ends with it."""
    try:
        yield reader
    finally:
        reader.end()


@pytest.mark.parametrize("page", ALONE, ids=lambda page: page.name)
def test_a_reader_sees_what_the_page_shows(page: Path, directory: Path) -> None:
    with reading(Reader(page, directory)) as reader:
        reader.read(page)


IDS = """\
import json, sys
boxes = [(pod, box) for pod in json.load(sys.stdin)["pods"] for box in pod["sandboxes"] if box["ready"]]
pod, box, one = next((*at, one) for at in boxes for one in at[1]["containers"] if one["state"] == "running")
print(f"POD={pod['uid']} SANDBOX={box['id']} CONTAINER={one['id']}")
"""


def test_the_fake_runtime_is_played_with_as_its_page_shows(directory: Path) -> None:
    port = free_port()
    instead = {"/tmp/": f"{directory}/", ":8080": f":{port}"}
    (directory / "ids.py").write_text(IDS)
    ids = f"curl -s localhost:{port}/state | {sys.executable} {directory}/ids.py"
    (directory / ".profile").write_text(f"export $({ids} 2>/dev/null)\n")  # a container may not be there for long
    with reading(Reader(FAKE, directory, instead, {"podLogsDir": f"{directory}/logs"})) as reader:
        reader.read(FAKE)


def test_a_machine_joins_a_cluster_and_leaves_it_as_the_page_shows(
    control_plane: ControlPlane, containerd2: Containerd, directory: Path
) -> None:
    bootstrap = yaml.safe_load(control_plane.bootstrap_kubeconfig().read_text())
    instead = {
        "/etc/kubernetes/pki/ca.crt": str(control_plane.authority.certificate),
        "/etc/kubernetes": str(directory),
        "/var/lib/kubelet": str(directory),
        "https://10.0.0.1:6443": control_plane.url,
        "abcdef.0123456789abcdef": bootstrap["users"][0]["user"]["token"],
        "unix:///run/containerd/containerd.sock": containerd2.endpoint,
    }
    apart = _apart(containerd2, directory) | {"port": free_port()}
    with reading(Reader(JOINING, directory, instead, apart, containerd2.inside)) as reader:
        reader.environment["KUBECONFIG"] = str(control_plane.kubeconfig)
        reader.read(JOINING)


def test_hollow_nodes_are_nodes_of_a_cluster_as_the_page_shows(control_plane: ControlPlane, directory: Path) -> None:
    """Three of them, for the machine of the tests has other things to do."""
    instead = {"--nodes 100": "--nodes 3", "admin.kubeconfig": str(control_plane.kubeconfig)}
    with reading(Reader(HOLLOW, directory, instead)) as reader:
        reader.environment |= {"KUBECONFIG": str(control_plane.kubeconfig), "TMPDIR": str(directory)}
        reader.read(HOLLOW)


def test_an_agent_runs_on_containerd_as_the_readme_shows(containerd2: Containerd, directory: Path) -> None:
    readme = TOP / "README.md"
    instead = {
        "unix:///run/containerd/containerd.sock": containerd2.endpoint,
        "/etc/kubernetes/manifests": f"{TOP}/examples/manifests/containerd",
    }
    (block,) = [block for block in blocks(readme) if block.mark == "run: containerd"]
    with reading(Reader(readme, directory, instead, _apart(containerd2, directory), containerd2.inside)) as reader:
        for shown in block.shown:
            reader.start(shown)
        reader.follow(Shown("trikubelet wait greeter-vm --for=condition=Ready", ""), "run")
    containerd2.remove_pods()


def _apart(runtime: Containerd, directory: Path) -> dict[str, Any]:
    """What keeps an agent's cgroups and files apart from those of the machine."""
    return {"cgroupRoot": runtime.cgroup_parent, "podLogsDir": f"{directory}/logs/pods"}


def test_the_guides_are_run() -> None:
    assert {"README.md", "standalone.md", "operations.md", "joining.md"} <= {page.name for page in RUN}
