"""The agent under test: a real process beside a container runtime of the tests, and its own words about itself.

    start ─► running ─┬─ stop (SIGTERM, must end with 0) ─► stopped ─ start ─► running
                      └─ kill (SIGKILL)                  ─► stopped

Called by the live tests and the benches that need the whole thing. It runs in the runtime's mount namespace, with
root, logs, manifests and socket below the instance's directory, so nothing of it is left on the machine. What it knows
is read over its local API, as the command line does; what really runs is asked of the runtime.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, ClassVar, Self

import yaml

from .daemon import Daemon, await_that
from .network import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


START_SECONDS_MAX = 90.0
STOP_SECONDS_MAX = 60.0


class Agent:
    """Owns one agent process and its directories. Use as a context manager: leaving it ends the process.
    ``configuration`` are fields of its KubeletConfiguration; ``words`` its flags beside the directories; ``program`` is
    what is run.
    """

    program: ClassVar[Sequence[str]] = (sys.executable, "-m", "trikubelet")

    def __init__(self, containerd: Daemon, **configuration: object) -> None:
        self.containerd = containerd
        self.directory = containerd.directory / f"agent-{time.monotonic_ns()}"
        self.root = self.directory / "root"
        self.manifests = self.directory / "manifests"
        self.pod_logs = self.directory / "logs" / "pods"
        self.log_path = self.directory / "agent.log"
        self.manifests.mkdir(parents=True)
        self.words = ["--standalone", "--hostname-override=live"]
        self._process: subprocess.Popen[bytes] | None = None
        self._configuration = self.directory / "config.yaml"
        self._configuration.write_text(yaml.safe_dump(self._defaults() | configuration))

    def _defaults(self) -> dict[str, object]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": self.containerd.cgroup_parent,
            "containerRuntimeEndpoint": self.containerd.endpoint,
            "staticPodPath": str(self.manifests),
            "podLogsDir": str(self.pod_logs),
            "healthzPort": free_port(),
            "imageGCHighThresholdPercent": 100,  # on a full disk it would remove what other tests imported
        }

    # ---- the process ----

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()  # nobody leaves what was not entered
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of the process; it must have been started."""
        assert self._process is not None
        return self._process.pid

    def start(self, *, wait: bool = True) -> None:
        """Start it; ``wait``: return when its local API answers."""
        assert not self.alive, "the agent runs already"
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self.containerd.inside(self._command()),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={name: value for name, value in os.environ.items() if not name.startswith("NOTIFY")},
            )
        if wait:
            await_that(self._answers, START_SECONDS_MAX, self.story)

    def stop(self) -> int:
        """End it as an operator would; its exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as the kernel would. Nothing to do when it does not run."""
        if self.alive:
            self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(STOP_SECONDS_MAX)

    def _command(self) -> list[str]:
        command = [*self.program, f"--config={self._configuration}", f"--root-dir={self.root}"]
        return [*command, "--v=4", *self.words]

    # ---- manifests ----

    def put(self, pod: Mapping[str, Any] | str, name: str = "") -> None:
        """Write a manifest as a careful operator does, in one step. ``name``: the file's, the pod's by default."""
        text = pod if isinstance(pod, str) else yaml.safe_dump(dict(pod))
        name = name or f"{yaml.safe_load(text)['metadata']['name']}.yaml"
        beside = self.directory / "half-written"
        beside.write_text(text)
        beside.rename(self.manifests / name)

    def take(self, name: str) -> None:
        """Remove the manifest of that pod."""
        (self.manifests / f"{name}.yaml").unlink()

    # ---- what it says ----

    def ask(self, path: str) -> Any:
        """What the local API answers there, parsed. Raises OSError when nobody does."""
        return json.loads(self._read(path))

    def measured(self, path: str = "/metrics") -> dict[str, float]:
        """What it has measured of itself: each line of its metrics, by name and labels as they are written."""
        lines = self._read(path).decode().splitlines()
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}

    def _read(self, path: str) -> bytes:
        connection = _OverUnix(str(self.root / "trikubelet.sock"))
        try:
            connection.request("GET", path)
            reply = connection.getresponse()
            body = reply.read()
            assert reply.status == 200, (path, reply.status, body)
            return body
        finally:
            connection.close()

    def pods(self) -> dict[str, dict[str, Any]]:
        """Every pod with its status, by the name its manifest gave it."""
        return {item["metadata"]["name"].removesuffix("-live"): item for item in self.ask("/pods")["items"]}

    def wait(
        self,
        satisfied: Callable[[dict[str, dict[str, Any]]], bool],
        what: str,
        seconds: float = 60,
        every_seconds: float = 0.05,
    ) -> dict[str, dict[str, Any]]:
        """What `pods` says once it satisfies. Raises RuntimeError with the pods and the agent's log when it does
        not."""
        pods: dict[str, dict[str, Any]] = {}

        def asked() -> bool:
            nonlocal pods
            try:
                pods = self.pods()
            except (OSError, http.client.HTTPException):
                assert self.alive, self.story()
                return False
            return satisfied(pods)

        await_that(asked, seconds, lambda: f"{what}: not after {seconds:g} s\n{self.story()}", every_seconds)
        return pods

    def wait_phase(self, name: str, phase: str, seconds: float = 60) -> dict[str, Any]:
        """The pod once it is in that phase (and, when Running, with every container ready)."""

        def there(pods: dict[str, dict[str, Any]]) -> bool:
            status = pods.get(name, {}).get("status", {})
            ready = all(one.get("ready") for one in status.get("containerStatuses", [{}]))
            return bool(status.get("phase") == phase and (phase != "Running" or ready))

        return self.wait(there, f"{name} is {phase}", seconds)[name]

    def wait_gone(self, *names: str, seconds: float = 60) -> None:
        """Until the agent knows nothing of these pods."""
        self.wait(lambda pods: not set(names) & set(pods), f"{', '.join(names)} gone", seconds)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One of the agent's own commands, run against it."""
        own = words.index("--") if "--" in words else len(words)  # what follows is for somebody else
        line = [*self.program, *words[:own], f"--root-dir={self.root}", *words[own:]]
        return subprocess.run(line, capture_output=True, text=True, timeout=90, check=False)

    def reset(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`trikubelet reset` with the agent's own flags, where the agent would run. ``words``: its own flags."""
        own = ["reset", f"--root-dir={self.root}", *words]
        line = [*self.program, *own, "--", f"--config={self._configuration}", *self.words]
        return subprocess.run(self.containerd.inside(line), capture_output=True, text=True, timeout=120, check=False)

    def story(self) -> str:
        """The end of the agent's log and what it says of its pods, for a failure."""
        log = self.log_path.read_text(errors="replace").splitlines()[-60:]
        try:
            pods = json.dumps({name: pod.get("status") for name, pod in self.pods().items()}, indent=1)
        except (OSError, http.client.HTTPException, AssertionError) as error:
            pods = f"(not to be had: {error})"
        return "\n".join(["the agent's log ends so:", *log, "and it says:", pods])

    def _answers(self) -> bool:
        assert self.alive, self.story()
        try:
            self.ask("/pods")
        except OSError:
            return False
        return True


class _OverUnix(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
