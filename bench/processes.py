"""The two processes of an agent benchmark, and what the kernel says they cost.

``FakeRuntimeProcess`` and ``AgentProcess`` are context managers: entering starts and waits until ready, leaving ends.
Memory is the resident set of /proc, processor time the user and system time of the process and its threads.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from zipfile import is_zipfile

if TYPE_CHECKING:
    from collections.abc import Callable

TOP = Path(__file__).parents[1]
UNINSTALLED = ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
"""Variables with which Python compiles every module each time."""
WAIT_SECONDS_MAX = 120.0
_TICKS = os.sysconf("SC_CLK_TCK")


def wait_until(satisfied: Callable[[], bool], what: str, every_seconds: float = 0.02) -> None:
    """Poll until ``satisfied``. Raises TimeoutError naming ``what``."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not satisfied():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not after {WAIT_SECONDS_MAX:g} s")
        time.sleep(every_seconds)


def free_port() -> int:
    """A TCP port of the loopback that is free now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def compiled(program: Path, directory: Path) -> dict[str, str]:
    """Compile the program, as pip and the package do, and return the environment in which it uses that. The single file
    is unpacked below ``directory``."""
    inherited = {name: value for name, value in os.environ.items() if name not in UNINSTALLED}
    own = {**inherited, "HOME": str(directory), "SHIV_ROOT": str(directory / "unpacked")}
    if is_zipfile(program):
        first = {**own, "SHIV_COMPILE_PYC": "1"}
        subprocess.run([program, "--v=0", "--help"], env=first, check=True, stdout=subprocess.DEVNULL)
    else:
        packages = sorted(program.parents[1].glob("lib/python3*/site-packages"))
        line = [
            program.with_name("python"),
            "-m",
            "compileall",
            "-q",
            *packages,
            TOP / "src",
        ]  # the program may be of this checkout
        subprocess.run(line, env=own, check=False, stdout=subprocess.DEVNULL)  # some tests of packages are broken
    return own


def rss_bytes(pid: int) -> int:
    """The resident set of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None, f"process {pid} has ended"
    return int(found[1]) * 1024


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


class FakeRuntimeProcess:
    """A ``trikubelet fake-runtime`` of our own below ``directory``, without pods at first."""

    def __init__(self, directory: Path) -> None:
        self.socket = directory / "runtime.sock"
        self._journal = directory / "journal"

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "trikubelet", "fake-runtime"]
        command += [f"--socket={self.socket}", f"--journal={self._journal}"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith(b"ready"), "the fake runtime did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def calls(self) -> list[dict[str, Any]]:
        """Every call so far: method, pod, began and ended in nanoseconds of the monotonic clock."""
        # The last line may be half written.
        return [json.loads(line) for line in self._journal.read_text().splitlines(keepends=True) if line[-1] == "\n"]


class AgentProcess:
    """An agent, standalone, on that runtime."""

    def __init__(self, directory: Path, runtime: FakeRuntimeProcess, **more: object) -> None:
        """``more``: fields of its configuration."""
        self._directory = directory
        self.manifests = directory / "manifests"
        self.manifests.mkdir()
        self._socket = directory / "root" / "trikubelet.sock"
        configuration = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": f"unix://{runtime.socket}",
            "staticPodPath": str(self.manifests),
            "podLogsDir": str(directory / "logs" / "pods"),
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            "healthzPort": 0,
            **more,
        }
        (directory / "config.yaml").write_text(json.dumps(configuration))

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "trikubelet", "--standalone", f"--config={self._directory / 'config.yaml'}"]
        command += [f"--root-dir={self._directory / 'root'}", "--hostname-override=bench"]
        self.began = time.monotonic_ns()
        self._log = (self._directory / "agent.log").open("wb")
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)
        self._log.close()

    def put(self, name: str, spec: dict[str, Any] | None = None) -> int:
        """Write a manifest of one pod, with one container unless ``spec`` says otherwise; when, in nanoseconds of the
        monotonic clock."""
        container = {"name": "main", "image": "bench:1"}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [container], **(spec or {})},
        }
        beside = self._directory / "new-manifest"
        beside.write_text(json.dumps(pod))
        beside.rename(self.manifests / f"{name}.json")
        return time.monotonic_ns()

    def pods(self) -> list[dict[str, Any]]:
        """Every pod with its status, as the local API has them."""
        items: list[dict[str, Any]] = json.loads(self._read("/pods"))["items"]
        return items

    def probe_answers(self) -> float:
        """How often its probes were answered so far."""
        lines = self._read("/metrics/probes").decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("prober_probe_total"))

    def _read(self, path: str) -> bytes:
        connection = http.client.HTTPConnection("localhost", timeout=10)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(self._socket))
        try:
            connection.request("GET", path)
            return connection.getresponse().read()
        finally:
            connection.close()

    def running(self) -> int:
        """How many pods are Running; 0 while the agent does not answer."""
        if self._process.poll() is not None:
            raise RuntimeError(f"the agent ended:\n{self.log()[-4000:]}")
        try:
            return sum(pod.get("status", {}).get("phase") == "Running" for pod in self.pods())
        except OSError:
            return 0

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    def log(self) -> str:
        """What it has said."""
        return (self._directory / "agent.log").read_text()

    def rss_bytes(self) -> int:
        """The resident set."""
        return rss_bytes(self._process.pid)

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        return cpu_seconds(self._process.pid)
