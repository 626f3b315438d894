"""The time from start to /healthz, beside upstream's kubelet: results/start.json and results/start.md.

    PYTHONPATH=tests python bench/start.py [--program PATH …] [--kubelet PATH] [--rounds 15]

Every program starts standalone on the same fake runtime, with the same configuration and an empty root directory. Each
round starts every program once, in turn, so that a busy machine slows down all of them. The results are medians: the
wall time from exec to the first good answer, and the processor time used until then. The programs are ours, from a
virtual environment and as the single file if it is built (`make pyz`), and upstream's kubelet if it is built
(`packaging/control-plane`) and root runs this. Ours are compiled before, as pip and the package do it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple
from zipfile import is_zipfile

from live.kit.upstream import DIFFERENCES, kernel_settings_kept
from processes import TOP, FakeRuntimeProcess, compiled, cpu_seconds, free_port, wait_until

RESULTS: Final = TOP / "bench/results"
SECONDS_MAX: Final = 0.5
UPSTREAM: Final = "upstream's kubelet"
POLL_SECONDS: Final = 0.002


class Program(NamedTuple):
    """A program that is measured, with its environment."""

    name: str
    words: tuple[str, ...]
    environment: dict[str, str]


class Start(NamedTuple):
    """One start: seconds until /healthz was good, and processor seconds used by then."""

    wall: float
    cpu: float


def programs(named: list[Path], kubelet: Path, directory: Path) -> list[Program]:
    """Return ours, and upstream's if it can be measured here."""
    ours = named or [Path(sys.executable).with_name("trikubelet"), TOP / "dist/trikubelet"]
    found = [
        Program(
            "the single file" if is_zipfile(path) else "a virtual environment", (str(path),), compiled(path, directory)
        )
        for path in map(Path.absolute, ours)
        if named or path.exists()
    ]
    if kubelet.exists() and os.geteuid() == 0:
        # It mounts its root directory on itself.
        found.append(Program(UPSTREAM, ("unshare", "--mount", str(kubelet)), dict(os.environ)))
    return found


def start(program: Program, runtime: Path, directory: Path) -> Start:
    """Start a program, wait for its /healthz, and end it."""
    port = free_port()
    for name in ("manifests", "logs"):
        (directory / name).mkdir(parents=True)
    configuration = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        **(DIFFERENCES if program.name == UPSTREAM else {}),
        "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupsPerQOS": False,
        "containerRuntimeEndpoint": f"unix://{runtime}",
        "enforceNodeAllocatable": [],
        "enableServer": False,
        "healthzPort": port,
        "podLogsDir": str(directory / "logs"),
        "staticPodPath": str(directory / "manifests"),
    }
    (directory / "config.yaml").write_text(json.dumps(configuration))
    line = [*program.words, f"--config={directory / 'config.yaml'}", f"--root-dir={directory / 'root'}"]
    line += ["--hostname-override=bench"] + ([] if program.name == UPSTREAM else ["--standalone"])
    with (directory / "log").open("wb") as log:
        began = time.monotonic()
        process = subprocess.Popen(line, env=program.environment, stdout=log, stderr=log)
    try:

        def is_healthy() -> bool:
            if process.poll() is not None:
                sys.exit(f"{program.name} ended:\n{(directory / 'log').read_text()[-2000:]}")
            return _is_healthy(port)

        wait_until(is_healthy, f"{program.name} is healthy", POLL_SECONDS)
        return Start(time.monotonic() - began, cpu_seconds(process.pid))
    finally:
        process.terminate()
        process.wait()


def _is_healthy(port: int) -> bool:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == http.HTTPStatus.OK
        except OSError:
            return False


def measure(found: list[Program], rounds: int, directory: Path) -> list[dict[str, Any]]:
    """Return the medians of each program."""
    took: list[list[Start]] = [[] for _ in found]
    with kernel_settings_kept(), FakeRuntimeProcess(directory) as runtime:
        for number in range(rounds + 1):
            for program, starts in zip(found, took, strict=True):
                place = directory / "node"
                one = start(program, runtime.socket, place)
                shutil.rmtree(place)
                if number:  # the first round pays for files that the kernel has not read yet
                    starts.append(one)
    return [
        {
            "program": program.name,
            "wall_s": round(median(one.wall for one in starts), 3),
            "cpu_s": round(median(one.cpu for one in starts), 3),
        }
        for program, starts in zip(found, took, strict=True)
    ]


def table(results: dict[str, Any]) -> str:
    """Return the results as a Markdown table."""
    lines = ["| Program | Start to /healthz | Processor time | Wanted |", "|---|---|---|---|"]
    for one in results["programs"]:
        wanted = "" if one["program"] == UPSTREAM else f"≤ {SECONDS_MAX:g} s"
        lines.append(f"| {one['program']} | {one['wall_s']:.2f} s | {one['cpu_s']:.2f} s | {wanted} |")
    machine = results["machine"]
    about = f"{machine['cpus']} processors, Python {machine['python']}, {machine['kernel']}, load {machine['load']}"
    return "\n".join([*lines, "", f"{about}; medians of {results['rounds']} starts.", ""])


def main() -> None:
    """Measure, write, print; exit code 1 if a program of ours takes longer than wanted."""
    where = [TOP / "packaging/control-plane/build.sh", "--where"]
    built = Path(subprocess.run(where, capture_output=True, text=True, check=True).stdout.strip())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, action="append", default=[])
    parser.add_argument("--kubelet", type=Path, default=built / "kubelet")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--output", type=Path, default=RESULTS)
    words = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trikubelet-bench-") as directory:
        found = programs(words.program, words.kubelet, Path(directory))
        load = os.getloadavg()[0]
        measured = measure(found, words.rounds, Path(directory))
    results = {
        "machine": {
            "cpus": os.cpu_count(),
            "python": platform.python_version(),
            "kernel": platform.release(),
            "load": f"{load:.1f} to {os.getloadavg()[0]:.1f}",
        },
        "rounds": words.rounds,
        "programs": measured,
    }
    (words.output / "start.json").write_text(json.dumps(results, indent=2) + "\n")
    (words.output / "start.md").write_text(table(results))
    print(table(results), end="")
    if slow := [one["program"] for one in measured if one["program"] != UPSTREAM and one["wall_s"] > SECONDS_MAX]:
        sys.exit(f"slower than {SECONDS_MAX:g} s: {', '.join(slow)}")


if __name__ == "__main__":
    main()
