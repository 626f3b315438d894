"""Tries a built single file as a stranger would: copied somewhere else, in an empty home, with nothing but Python.

    python packaging/smoke_test.py dist/trikubelet

It must tell its version, refuse a bad manifest, run the example manifests on its embedded runtime, show them, copy
files to a container of theirs and back, and end with 0 on SIGTERM leaving no process behind. Exit 0 when all of that
holds; else the first thing that does not, and 1. What Python it runs on matters: the standard library differs between
the releases of one minor version, so let the one that a distribution has run this, too.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLES = Path(__file__).parent.parent / "examples" / "manifests"
WAIT_SECONDS_MAX = 60.0


class Smoke(Exception):
    """Something does not hold."""


class Installed:
    """The single file in a home of its own."""

    def __init__(self, built: Path, home: Path) -> None:
        self.home = home
        self.program = home / "trikubelet"
        shutil.copy(built, self.program)
        self.root = home / "root"
        self.config = home / "config.json"
        configuration = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "podLogsDir": str(home / "logs"),
        }
        self.config.write_text(json.dumps(configuration))
        # The interpreter that built it, by its own directory, so that no virtual environment lends a package.
        python = Path(os.path.realpath(sys.executable)).parent
        self.environment = {
            "HOME": str(home),
            "SHIV_ROOT": str(home / "unpacked"),  # root's would be the machine's own
            "PATH": f"{python}:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG": "C.UTF-8",
        }

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One command to its end."""
        return subprocess.run(
            [self.program, *words], env=self.environment, capture_output=True, text=True, timeout=60, check=False
        )

    def start(self, manifests: Path) -> subprocess.Popen[bytes]:
        """The agent, on its embedded runtime."""
        words = ["--standalone", "--container-runtime-endpoint=embedded:", f"--pod-manifest-path={manifests}"]
        words += [f"--root-dir={self.root}", f"--config={self.config}", "--healthz-port=0", "--hostname-override=smoke"]
        with (self.home / "agent.log").open("wb") as log:
            return subprocess.Popen([self.program, *words], env=self.environment, stdout=log, stderr=log)

    def tidy(self) -> None:
        """Root's links to the containers' logs stand where every tool looks for them, and not in our home."""
        for link in Path("/var/log/containers").glob("*-smoke_*.log"):
            if os.readlink(link).startswith(str(self.home)):
                link.unlink()

    def pods(self) -> dict[str, dict[str, object]]:
        """Pod name to status, or nothing while nobody answers."""
        shown = self.run("get", "pods", "-A", "-o", "json", f"--root-dir={self.root}")
        items = json.loads(shown.stdout)["items"] if shown.returncode == 0 else []
        return {item["metadata"]["name"]: item.get("status", {}) for item in items}


def hold(fact: bool, otherwise: str) -> None:
    """Raise Smoke unless the fact holds."""
    if not fact:
        raise Smoke(otherwise)


def wait(satisfied: Callable[[], bool], otherwise: Callable[[], str]) -> None:
    """Poll until satisfied. Raises Smoke."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not satisfied():
        hold(time.monotonic() < deadline, otherwise())
        time.sleep(0.2)


def says_its_version(installed: Installed) -> None:
    told = installed.run("--version")
    hold(told.returncode == 0 and "trikubelet" in told.stdout, f"--version: {told}")


def refuses_a_bad_manifest(installed: Installed) -> None:
    bad = installed.home / "bad.yaml"
    bad.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {contaners: []}\n")
    told = installed.run("validate", str(bad))
    hold(told.returncode == 1 and "contaners" in told.stdout + told.stderr, f"validate of a bad manifest: {told}")
    told = installed.run("validate", *map(str, sorted(EXAMPLES.glob("*.yaml"))))
    hold(told.returncode == 0, f"validate of the examples: {told}")


def runs_the_examples(installed: Installed) -> None:
    agent = installed.start(EXAMPLES)

    def story() -> str:
        return f"the examples did not come up: {installed.pods()}\n{(installed.home / 'agent.log').read_text()[-4000:]}"

    try:
        wait(lambda: _all_as_wanted(installed.pods()), story)
        _copies_both_ways(installed)
        children = _descendants(agent.pid)
        hold(len(children) > 1, "the embedded runtime runs no process")
        agent.send_signal(signal.SIGTERM)
        code = agent.wait(30)
        hold(code == 0, f"SIGTERM ended it with {code}:\n{(installed.home / 'agent.log').read_text()[-2000:]}")
        left = [pid for pid in children if Path(f"/proc/{pid}").exists()]
        hold(not left, f"processes were left behind: {left}")
    finally:
        agent.kill()
        agent.wait()


def _copies_both_ways(installed: Installed) -> None:
    """A directory goes in and comes back, but for a link in it that leads elsewhere, which is told."""
    source, back = installed.home / "copied", installed.home / "back"
    source.mkdir()
    (source / "file").write_text("as it was")
    (source / "leads-out").symlink_to("/etc/passwd")
    options = ("cp", "-c", "clock", f"--root-dir={installed.root}")
    told = installed.run(*options, str(source), "web-smoke:/page/")
    hold(told.returncode == 0, f"cp to a container: {told}")
    told = installed.run(*options, "web-smoke:/page/copied", str(back))
    hold(told.returncode == 0 and "'leads-out' is a link to '/etc/passwd'" in told.stderr, f"cp out of one: {told}")
    hold(["as it was"] == [file.read_text() for file in back.iterdir()], f"copied back: {list(back.iterdir())}")


def _all_as_wanted(pods: dict[str, dict[str, object]]) -> bool:
    """One pod runs, one is done, as the examples have it."""
    phases = {name.removesuffix("-smoke"): status.get("phase") for name, status in pods.items()}
    return phases.get("web") == "Running" and phases.get("job") == "Succeeded"


def _descendants(pid: int) -> set[int]:
    """The processes below a process."""
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        try:
            children = Path(f"/proc/{one}/task/{one}/children").read_text().split()
        except OSError:
            continue
        waiting += map(int, children)
        found.update(map(int, children))
    return found


CHECKS = (says_its_version, refuses_a_bad_manifest, runs_the_examples)


def main() -> int:
    """Try everything; the exit code."""
    built = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as home:
        installed = Installed(built, Path(home))
        for check in CHECKS:
            try:
                check(installed)
            except Smoke as error:
                sys.stderr.write(f"smoke test: {check.__name__.replace('_', ' ')}: does not hold: {error}\n")
                return 1
            finally:
                installed.tidy()
            sys.stdout.write(f"smoke test: {check.__name__.replace('_', ' ')}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
