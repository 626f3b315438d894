"""One container runtime for the live tests, with everything its own: started, stopped, killed and asked from here.

    claim ─► start ─► ready ─┬─ stop/kill ─► stopped ─ start ─► ready (pods live on)
                             └─ close ─► nothing left on the machine

``containerd.py`` and ``crio.py`` say how theirs is configured, started and given images. It runs in a mount namespace
of its own whose root is rshared, so that mounts made by it, by what watches its containers and by an agent started
through `Daemon.inside` are seen by one another, propagate into containers as on a node with systemd, and end with the
namespace. The network namespace is the machine's: pods are reachable from the test, host ports and host network are
the real ones.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from grpclib.const import Status
from grpclib.exceptions import GRPCError, StreamTerminatedError

from . import configuration, images, instance, places
from .cri import Cri

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

START_SECONDS_MAX = 90.0
STOP_SECONDS_MAX = 60.0
REMOVE_ATTEMPTS_MAX = 12


class Daemon(ABC):
    """Owns one running container runtime and the instance it lives in. Every method is synchronous and may block for
    seconds; none may be called by two threads at once, except `inside` and `cri`."""

    name: ClassVar[str]
    """As it calls itself in the CRI."""

    def __init__(self) -> None:
        self.instance = instance.claim()
        self._layout = configuration.Layout(self.instance.directory)
        self._daemon: subprocess.Popen[bytes] | None = None
        self.cri = Cri(self._layout.socket)
        self.pause_image = images.PAUSE
        try:
            self._make_directories()
            self._holder = self._enter_namespace()
            self._configure()
            self.start()
            self._import_images()
            self._await_images()
        except BaseException:
            self.instance_given_back()
            raise

    def __repr__(self) -> str:
        return f"<{self.name} {self.version} at {self.endpoint}, {'running' if self.alive else 'stopped'}>"

    @property
    @abstractmethod
    def version(self) -> str:
        """As its program has it, for instance ``2.2.9``."""

    @abstractmethod
    def tasks(self) -> dict[str, int]:
        """The running process of each container, and of each sandbox that has one, by id. Unchanged means: not
        restarted."""

    @abstractmethod
    def trust(self, address: str) -> None:
        """Lets images be pulled from the registry at ``address`` (host and port), which speaks plain HTTP."""

    @abstractmethod
    def _configure(self) -> None:
        """Writes what it reads when it starts."""

    @abstractmethod
    def _command(self) -> tuple[list[str], Mapping[str, str]]:
        """How it is started: its words and its environment."""

    @abstractmethod
    def _import_images(self) -> None:
        """Puts every image there that `images.names` has."""

    @property
    def endpoint(self) -> str:
        """The CRI endpoint, ``unix:///…``, runtime and image service both."""
        return f"unix://{self._layout.socket}"

    @property
    def directory(self) -> Path:
        """The instance's directory; what a test puts below it is removed with it."""
        return self._layout.directory

    @property
    def cgroup_parent(self) -> str:
        """Give pods this parent (or one below it): it is removed at the end, and two instances never share one."""
        return self.instance.cgroup

    @property
    def bridge(self) -> str:
        """The pods' bridge on the host; it appears with the first pod."""
        return self.instance.name

    @property
    def subnet(self) -> str:
        """Where the pods' addresses come from."""
        return self.instance.subnet

    @property
    def log_path(self) -> Path:
        """What it and the watchers of its containers wrote, over all starts."""
        return self._layout.log

    @property
    def alive(self) -> bool:
        """Whether the daemon runs."""
        return self._daemon is not None and self._daemon.poll() is None

    @property
    def pid(self) -> int:
        """The daemon's process id. It must be running."""
        assert self._daemon is not None, f"{self.name} is not started"
        return self._daemon.pid

    def start(self) -> None:
        """Starts the daemon and returns when its CRI service says runtime and network are ready. Raises
        RuntimeError with the end of its log when it does not get there."""
        assert not self.alive, f"{self.name} runs already"
        command, environment = self._command()
        with self._layout.log.open("ab") as log:
            self._daemon = subprocess.Popen(
                self.inside(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # the terminal's interrupt is for the test run, not for us
                env=environment,
            )
        await_that(self._is_ready, START_SECONDS_MAX, self._failure)

    def stop(self) -> None:
        """Ends the daemon as an operator would, by SIGTERM; its pods live on. Nothing to do when it is stopped."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Ends the daemon by SIGKILL, as a crash would; its pods live on."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """`stop`, then `start`."""
        self.stop()
        self.start()

    def inside(self, command: Iterable[str]) -> list[str]:
        """``command`` as it is run in the instance's mount namespace, with every path the same. An agent whose mounts
        containers are to see must be started so. The process id stays that of the command."""
        return [str(places.program("nsenter")), f"--mount=/proc/{self._holder.pid}/ns/mnt", "--", *command]

    def remove_pods(self) -> None:
        """Removes every pod with its containers, whoever made it. Raises GRPCError when the runtime refuses."""
        sandboxes = [item.id for item in self.cri.call("ListPodSandbox").items]
        with ThreadPoolExecutor(max_workers=8) as pool:
            list(pool.map(self._remove_sandbox, sandboxes))

    def close(self) -> None:
        """Removes the pods, ends the daemon and gives the instance back. Raises RuntimeError naming what stayed."""
        try:
            if self.alive:
                self.remove_pods()
            self.stop()
        finally:
            self.instance_given_back()

    def instance_given_back(self) -> None:
        """Ends whatever runs in the instance and removes all of it, without asking the runtime."""
        instance.give_back(self.instance)
        for child in (self._daemon, getattr(self, "_holder", None)):
            if child is not None:
                child.wait()

    def _remove_sandbox(self, sandbox: str) -> None:
        """containerd 1.6 may refuse once, "ttrpc: closed", when a container ends by itself just then; a kubelet would
        come back, and so do we. One that is gone was being removed when it was listed, by an agent just killed; one
        that an agent was just starting cannot be removed for a moment. A start given up with its killed caller can
        leave a process behind that the CRI of containerd 2.2 neither knows nor stops, so it is killed beneath it."""
        for attempt in range(1, REMOVE_ATTEMPTS_MAX + 1):
            try:
                self.cri.call("StopPodSandbox", pod_sandbox_id=sandbox)
                self.cri.call("RemovePodSandbox", pod_sandbox_id=sandbox)
                return
            except GRPCError as error:
                if error.status is Status.NOT_FOUND:
                    return
                if attempt == REMOVE_ATTEMPTS_MAX:
                    raise
                if error.status is Status.FAILED_PRECONDITION:
                    self._kill_tasks()
                time.sleep(0.1 * attempt)

    def _kill_tasks(self) -> None:
        for process in self.tasks().values():
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(process, signal.SIGKILL)

    def _make_directories(self) -> None:
        layout = self._layout
        for directory in (layout.root, layout.state, layout.networks, *instance.HIDDEN):
            directory.mkdir(parents=True, exist_ok=True)
        networks = configuration.network_list(self.instance.name, self.subnet, layout)
        (layout.networks / "10-live.conflist").write_text(networks)

    def _enter_namespace(self) -> subprocess.Popen[bytes]:
        """A process that does nothing but hold the mount namespace. First private, so that the machine never hears of
        its mounts; then shared among themselves."""
        hide = " && ".join(f"mount -t tmpfs {self.instance.name} {path}" for path in instance.HIDDEN)
        script = f"mount --make-rshared / && {hide} && echo ready && exec sleep infinity"
        holder = subprocess.Popen(
            [places.program("unshare"), "--mount", "--propagation", "private", "sh", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert holder.stdout is not None
        with holder.stdout:
            if holder.stdout.readline() != b"ready\n":
                raise RuntimeError("no mount namespace of our own; unshare's message is above")
        return holder

    def _await_images(self) -> None:
        """containerd's CRI learns of an import by an event of its own, a moment later."""

        def tags() -> set[str]:
            return {tag for image in self.cri.call("ListImages").images for tag in image.repo_tags}

        await_that(lambda: set(images.names()) <= tags(), START_SECONDS_MAX, self._failure)

    def _is_ready(self) -> bool:
        if not self.alive:
            raise RuntimeError(self._failure())
        try:
            conditions = self.cri.call("Status", seconds=5).status.conditions
        except (OSError, GRPCError, StreamTerminatedError):
            return False
        return {"RuntimeReady", "NetworkReady"} <= {condition.type for condition in conditions if condition.status}

    def _failure(self) -> str:
        end = self._layout.log.read_text(errors="replace").splitlines()[-30:] if self._layout.log.exists() else []
        return f"{self.name} did not get ready; the end of its log:\n" + "\n".join(end)

    def _end(self, number: signal.Signals) -> None:
        if self._daemon is None or self._daemon.poll() is not None:
            return
        self._daemon.send_signal(number)
        try:
            self._daemon.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._daemon.kill()
            self._daemon.wait()
            raise RuntimeError(f"{self.name} did not end on {number.name} in {STOP_SECONDS_MAX} s") from None


def await_that(
    satisfied: Callable[[], bool], seconds: float, complaint: Callable[[], str], every_seconds: float = 0.05
) -> None:
    """Polls until ``satisfied``; raises RuntimeError with the complaint when ``seconds`` have passed."""
    deadline = time.monotonic() + seconds
    while not satisfied():
        if time.monotonic() > deadline:
            raise RuntimeError(complaint())
        time.sleep(every_seconds)
