"""How long commands take beside kubectl's, against the same agent: results/commands.json and results/commands.md.

    python bench/commands.py [--program dist/trikubelet] [--kubectl PATH] [--rounds 15]

An agent of ours runs one pod on the embedded runtime and answers both: our commands on its socket, kubectl on the port
of ``--kubectl-port``. Each round runs every command once, ours and kubectl's by turns, so that a busy machine slows
down both. The result is the ratios of the medians. The program is compiled first, as pip and the package do it, and
the environment must not keep Python from using that.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self
from zipfile import is_zipfile

from processes import TOP, compiled, free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

RESULTS: Final = TOP / "bench/results"
RATIO_MAX: Final = 2.0
MANIFEST: Final = """\
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - {name: app, image: host, command: [sh, -c, "echo hello; exec sleep 1000000"]}
"""


class Pair(NamedTuple):
    """A command of ours and kubectl's that does the same."""

    ours: str
    kubectl: str


def pairs(pod: str, node: str) -> list[Pair]:
    """What is measured. Commands that change something, or that the other does not have, are left out."""
    same = [
        "get pods",
        "get pods -A -o wide",
        "get pods -o yaml",
        f"get pod {pod} -o jsonpath={{.status.phase}}",
        "get nodes",
        "get events",
        f"describe pod {pod}",
        f"describe node {node}",
        f"logs {pod}",
        f"exec {pod} -- true",
        f"cp {pod}:/etc/hostname /dev/null",
        "help",
        "get --help",
        "completion bash",
    ]
    return [
        *(Pair(one, one) for one in same),
        Pair(f"wait {pod} --for=condition=Ready", f"wait pod/{pod} --for=condition=Ready"),
        Pair("version", "version --client"),
    ]


class Node:
    """An agent with one pod, from ``__enter__`` to ``__exit__``, and how both programs ask it."""

    def __init__(self, program: Path, kubectl: str, directory: Path) -> None:
        self._program = program
        self._kubectl = kubectl
        self._root = directory / "root"
        self._manifests = directory / "manifests"
        self._kubeconfig = directory / "kubeconfig"
        self._log = directory / "log"
        self._own = compiled(program, directory)
        self.pod, self.name = "web-bench", "bench"

    def __enter__(self) -> Self:
        self._manifests.mkdir()
        (self._manifests / "web.yaml").write_text(MANIFEST)
        line = [self._program, "--standalone", "--container-runtime-endpoint=embedded:", f"--root-dir={self._root}"]
        line += [f"--pod-manifest-path={self._manifests}", "--hostname-override=bench", "--healthz-port=0"]
        line += [f"--kubectl-port={free_port()}"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(line, env=self._own, stdout=log, stderr=log)
        try:
            wait_until(self._is_ready, "the pod is ready", 0.2)
            self.ours(f"kubeconfig {self._kubeconfig}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    def _is_ready(self) -> bool:
        if self._process.poll() is not None:
            sys.exit(self._log.read_text()[-2000:])
        line = [*self._line_of_ours("wait web-bench --for=condition=Ready --timeout=1s")]
        return subprocess.run(line, env=self._own, capture_output=True, check=False).returncode == 0

    def _line_of_ours(self, words: str) -> list[str]:
        own, dashes, behind = words.partition(" -- ")
        about_itself = own.split()[0] in ("help", "version", "completion") or own.endswith("--help")
        finding = [] if about_itself else [f"--root-dir={self._root}"]
        return [str(self._program), *own.split(), *finding, *([dashes.strip(), *behind.split()] if dashes else [])]

    def ours(self, words: str) -> float:
        """Seconds that our command takes."""
        return self._timed(self._line_of_ours(words))

    def kubectl(self, words: str) -> float:
        """Seconds that kubectl takes."""
        return self._timed([self._kubectl, f"--kubeconfig={self._kubeconfig}", *words.split()])

    def _timed(self, line: Sequence[str]) -> float:
        began = time.monotonic()
        done = subprocess.run(line, env=self._own, capture_output=True, text=True, check=False)
        took = time.monotonic() - began
        if done.returncode:
            sys.exit(f"{' '.join(line)}: exit code {done.returncode}: {done.stderr}")
        return took


def measure(node: Node, rounds: int) -> list[dict[str, Any]]:
    """The seconds of every command in each round."""
    wanted = pairs(node.pod, node.name)
    took: list[tuple[list[float], list[float]]] = [([], []) for _ in wanted]
    for number in range(rounds + 1):
        for pair, (ours, theirs) in zip(wanted, took, strict=True):
            measured = node.ours(pair.ours), node.kubectl(pair.kubectl)
            if number:  # the first round pays for files that the kernel has not read yet
                ours.append(measured[0])
                theirs.append(measured[1])
    return [
        {
            "command": pair.ours,
            "ours_s": round(median(ours), 4),
            "kubectl_s": round(median(theirs), 4),
            "ratio": round(median(ours) / median(theirs), 2),
        }
        for pair, (ours, theirs) in zip(wanted, took, strict=True)
    ]


def table(results: dict[str, Any]) -> str:
    """The results as a Markdown table."""
    lines = ["| Command | trikubelet | kubectl | Ratio | Wanted |", "|---|---|---|---|---|"]
    lines += [
        f"| `{one['command']}` | {one['ours_s'] * 1e3:.0f} ms | {one['kubectl_s'] * 1e3:.0f} ms | {one['ratio']:.2f} "
        f"| ≤ {RATIO_MAX:g} |"
        for one in results["commands"]
    ]
    machine = results["machine"]
    about = f"{machine['cpus']} processors, Python {machine['python']}, {machine['kernel']}, load {machine['load']}"
    return "\n".join([*lines, "", f"{about}; {results['program']}, kubectl {results['kubectl']}.", ""])


def find_kubectl(named: str) -> str:
    """kubectl: the one that was named, that of the control plane which the live tests build, or the machine's."""
    where = [TOP / "packaging/control-plane/build.sh", "--where"]
    built = f"{subprocess.run(where, capture_output=True, text=True, check=True).stdout.strip()}/kubectl"
    found = named or (built if os.access(built, os.X_OK) else shutil.which("kubectl"))
    if not found:
        sys.exit("no kubectl: name one (--kubectl=PATH), or build it: packaging/control-plane/build.sh")
    return found


def main() -> None:
    """Measure, write, print; exit code 1 where a command takes more than is wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=Path(sys.executable).with_name("trikubelet"))
    parser.add_argument("--kubectl", default="")
    parser.add_argument("--rounds", type=int, default=15)
    words = parser.parse_args()
    kubectl = find_kubectl(words.kubectl)
    program = words.program.absolute()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trikubelet-bench-")))
        node = stack.enter_context(Node(program, kubectl, directory))
        load = os.getloadavg()[0]
        commands = measure(node, words.rounds)
    version = subprocess.run([kubectl, "version", "--client", "-o", "json"], capture_output=True, text=True, check=True)
    results = {
        "machine": {
            "cpus": os.cpu_count(),
            "python": platform.python_version(),
            "kernel": platform.release(),
            "load": f"{load:.1f} to {os.getloadavg()[0]:.1f}",
        },
        "program": "the single file" if is_zipfile(program) else "a virtual environment",
        "kubectl": json.loads(version.stdout)["clientVersion"]["gitVersion"],
        "rounds": words.rounds,
        "commands": commands,
    }
    (RESULTS / "commands.json").write_text(json.dumps(results, indent=2) + "\n")
    (RESULTS / "commands.md").write_text(table(results))
    print(table(results), end="")
    if slow := [one["command"] for one in commands if one["ratio"] > RATIO_MAX]:
        sys.exit(f"slower than {RATIO_MAX:g} times kubectl: {', '.join(slow)}")


if __name__ == "__main__":
    main()
