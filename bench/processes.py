"""The two processes of an agent benchmark, and what the kernel says they cost.

``FastRuntimeProcess`` and ``AgentProcess`` are context managers: entering starts and waits until ready, leaving ends.
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

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
WAIT_SECONDS_MAX = 120.0
_TICKS = os.sysconf("SC_CLK_TCK")


def wait_until(satisfied: Callable[[], bool], what: str, every_seconds: float = 0.02) -> None:
    """Poll until ``satisfied``. Raises TimeoutError naming ``what``."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not satisfied():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not after {WAIT_SECONDS_MAX:g} s")
        time.sleep(every_seconds)


class FastRuntimeProcess:
    """A ``fast_runtime.py`` of our own below ``directory``."""

    def __init__(self, directory: Path) -> None:
        self.socket = directory / "runtime.sock"
        self._journal = directory / "journal"

    def __enter__(self) -> Self:
        command = [sys.executable, str(HERE / "fast_runtime.py"), str(self.socket), str(self._journal)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n", "the fast runtime did not start"
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

    def __init__(self, directory: Path, runtime: FastRuntimeProcess) -> None:
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

    def put(self, name: str) -> int:
        """Write a manifest of one pod with one container; when, in nanoseconds of the monotonic clock."""
        container = {"name": "main", "image": "bench:1"}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
        }
        beside = self._directory / "new-manifest"
        beside.write_text(json.dumps(pod))
        beside.rename(self.manifests / f"{name}.json")
        return time.monotonic_ns()

    def pods(self) -> list[dict[str, Any]]:
        """Every pod with its status, as the local API has them."""
        connection = http.client.HTTPConnection("localhost", timeout=10)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(self._socket))
        try:
            connection.request("GET", "/pods")
            items: list[dict[str, Any]] = json.loads(connection.getresponse().read())["items"]
            return items
        finally:
            connection.close()

    def running(self) -> int:
        """How many pods are Running; 0 while the agent does not answer."""
        if self._process.poll() is not None:
            raise RuntimeError(f"the agent ended:\n{(self._directory / 'agent.log').read_text()[-4000:]}")
        try:
            return sum(pod.get("status", {}).get("phase") == "Running" for pod in self.pods())
        except OSError:
            return 0

    def rss_bytes(self) -> int:
        """The resident set."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
        assert found is not None, "the agent has ended"
        return int(found[1]) * 1024

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS
