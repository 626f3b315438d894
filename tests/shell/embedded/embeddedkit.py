"""An embedded runtime in the test's own process, reached as any other runtime is."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from trikubelet.cri.channel import open_channel
from trikubelet.cri.runtime import CriImages, CriRuntime
from trikubelet.embedded import run_embedded
from trikubelet.model.runtime import ContainerState, ContainerStatus
from trikubelet.model.runtime_config import ContainerConfig, SandboxConfig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

WAIT_SECONDS_MAX = 60
POLL_SECONDS = 0.02


@dataclass
class Embedded:
    """A runtime that serves in the process ``pid``, a client of it, and where its containers' logs are."""

    runtime: CriRuntime
    images: CriImages
    logs: Path
    pid: int = field(default_factory=os.getpid)
    sandbox: SandboxConfig = field(init=False)
    sandbox_id: str = ""

    def __post_init__(self) -> None:
        self.sandbox = SandboxConfig("uid-1", "pod", "default", 0, log_directory=str(self.logs))

    async def start(self, script: str, name: str = "main", **config: Any) -> str:
        """A container that runs a shell script, in the one sandbox of this test; its id."""
        container_id = await self.create(("sh", "-c", script), name, **config)
        await self.runtime.start_container(container_id)
        return container_id

    async def create(self, command: tuple[str, ...], name: str = "main", **config: Any) -> str:
        """A container that has not started; its id."""
        if not self.sandbox_id:
            self.sandbox_id = await self.runtime.run_sandbox(self.sandbox)
        wanted = ContainerConfig(name, 0, "host", command=command, log_path=f"{name}.log", **config)
        return await self.runtime.create_container(self.sandbox_id, wanted, self.sandbox)

    async def exited(self, container_id: str) -> ContainerStatus:
        """The container's status once it has ended."""
        with trio.fail_after(WAIT_SECONDS_MAX):
            while True:
                status = (await self.runtime.container_status(container_id)).decode()
                if status.state is ContainerState.EXITED:
                    return status
                await trio.sleep(POLL_SECONDS)  # CRI 1.6 can only be asked

    def mounts(self) -> str:
        """Every mount that the runtime's own process sees."""
        return Path(f"/proc/{self.pid}/mountinfo").read_text()

    def output(self, name: str = "main") -> list[str]:
        """Return the output of a container, line by line."""
        path = self.logs / f"{name}.log"
        return [line.split(" ", 3)[3] for line in path.read_text().splitlines()] if path.exists() else []

    async def wrote(self, line: str, name: str = "main") -> None:
        """Wait until a container has written a line."""
        with trio.fail_after(WAIT_SECONDS_MAX):
            while line not in self.output(name):  # noqa: ASYNC110 - a file has no event
                await trio.sleep(POLL_SECONDS)


@asynccontextmanager
async def running(directory: Path, stopping: trio.Event | None = None) -> AsyncIterator[Embedded]:
    """An embedded runtime for the length of the block. Its files are below ``directory``; its socket is elsewhere,
    because a socket's path is short. ``stopping`` is set when its agent stops."""
    logs = directory / "logs"
    logs.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as short:
        path = f"{short}/cri.sock"
        async with trio.open_nursery() as nursery:
            await nursery.start(run_embedded, path, directory / "state", stopping)
            async with open_channel(f"unix://{path}") as channel:
                yield Embedded(CriRuntime(channel), CriImages(channel), logs)
            nursery.cancel_scope.cancel()


SERVE = """
import sys, trio
from pathlib import Path
from trikubelet.embedded import run_embedded

async def main():
    async with trio.open_nursery() as nursery:
        await nursery.start(run_embedded, sys.argv[1], Path(sys.argv[2]))
        print("ready", flush=True)

trio.run(main)
"""
APART = (
    ["unshare", "--mount", "--propagation", "private", "unshare", "--mount", "--propagation", "shared"]
    if os.geteuid() == 0
    else ["unshare", "--user", "--map-current-user", "--mount"]
)
"""Gives an agent the machine's mounts for itself, so that nobody else changes them. Private ones first, to be cut off
from the machine, then shared ones, as systemd has them: what a container mounted in those could come up in others."""
# These sysctls are the user namespace's own: nothing of the machine is changed.
WITHOUT_PID_NAMESPACES = 'echo 0 > /proc/sys/user/max_pid_namespaces && exec "$@"'
IN_A_CHROOT = """
root=$(mktemp -d -p "$PLACE")
for entry in /*; do
    if [ -L "$entry" ]; then
        cp -d "$entry" "$root$entry"
    elif [ -d "$entry" ]; then
        mkdir "$root$entry"
        mount --rbind "$entry" "$root$entry"
    fi
done
exec chroot "$root" "$@"
"""
"""The machine's directories in a plain one, which is no mount."""
PREFIXES = {
    "as we are": [],
    # Whoever maps user 0 into a user namespace must have that one capability; others need none.
    "without capabilities": ["setpriv", "--bounding-set=-all,+setfcap", "--inh-caps=-all"] if os.geteuid() == 0 else [],
    "in a chroot": ["sh", "-c", IN_A_CHROOT, "sh"],
    "guards": ["unshare", "--user", "--map-root-user", "sh", "-c", WITHOUT_PID_NAMESPACES, "sh"],
}
"""How to become an agent of each kind: with namespaces as root, in a user namespace, in a chroot (which only root can
enter), and without any namespace."""
WITH_NAMESPACES = ["as we are", "without capabilities", *(["in a chroot"] if os.geteuid() == 0 else [])]


@asynccontextmanager
async def running_apart(kind: str) -> AsyncIterator[tuple[Embedded, subprocess.Popen[bytes]]]:
    """An embedded runtime in a process and with mounts of its own, of one of the kinds of ``PREFIXES``; killed at the
    end."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        logs = place / "logs"
        logs.mkdir()
        command = [*APART, *PREFIXES[kind], sys.executable, "-c", SERVE, f"{place}/cri.sock", f"{place}/state"]
        own = os.environ | {"PLACE": directory}
        agent = subprocess.Popen(command, stdout=subprocess.PIPE, env=own)  # noqa: ASYNC220 - a test's set-up
        try:
            assert agent.stdout is not None
            assert b"ready\n" == await trio.to_thread.run_sync(agent.stdout.readline)
            async with open_channel(f"unix://{place}/cri.sock") as channel:
                yield Embedded(CriRuntime(channel), CriImages(channel), logs, agent.pid), agent
        finally:
            agent.kill()
            agent.wait()
            if agent.stdout is not None:
                agent.stdout.close()
            with trio.CancelScope(shield=True):
                await gone(str(place))  # or its directory is not ours to remove


async def gone(marker: str) -> None:
    """Wait until no process of the machine carries the marker."""
    with trio.fail_after(WAIT_SECONDS_MAX):
        while processes_with(marker):  # noqa: ASYNC110 - other processes' ends have no event for us
            await trio.sleep(POLL_SECONDS)


def processes_with(marker: str) -> list[int]:
    """The pids of this machine's processes that have ``marker`` in their environment or command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                state = (entry / "stat").read_bytes().rpartition(b")")[2].split()[0]
                seen = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if state != b"Z" and marker.encode() in seen:
                found.append(int(entry.name))
    return found
