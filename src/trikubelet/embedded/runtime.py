"""The embedded runtime as one service: the keeper, the pods, and a CRI server on a Unix socket.

    run_embedded
    ├── link     to the keeper process; if that dies, this fails
    ├── pods     one task per running container
    ├── streams  a server on loopback, started on first use
    └── serve    the socket, which closes first: there are no calls while the containers shut down

The agent ends its pods before it cancels this (``node.agent_stop``). Containers that run all the same are signalled to
stop, and killed after ``FAREWELL_SECONDS_MAX``; their ends are recorded. When the agent is killed there is no graceful
stop: the kernel kills them, and the next agent finds them without a recorded end.
"""

from __future__ import annotations

import logging
import os
import pwd
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.cri.event_board import EventBoard
from trikubelet.cri.server import serve
from trikubelet.embedded import processes
from trikubelet.embedded.commands import Commands
from trikubelet.embedded.disk_records import DiskRecords
from trikubelet.embedded.images import HostImages
from trikubelet.embedded.link import start_keeper
from trikubelet.embedded.pods import Pods
from trikubelet.embedded.service import EmbeddedRuntime
from trikubelet.embedded.spec import Machine, User
from trikubelet.host.clock import SystemClock
from trikubelet.host.node import default_addresses
from trikubelet.kit.shielded_nursery import open_shielded_nursery
from trikubelet.streaming.server import StreamingServer

if TYPE_CHECKING:
    from pathlib import Path

    from trikubelet.cri.server import Servable
    from trikubelet.embedded.link import KeeperLink

log = logging.getLogger(__name__)

FAREWELL_SECONDS_MAX: Final = 2.0
RECORDING_SECONDS_MAX: Final = 2.0
"""Seconds after that for the kernel to end killed processes, and the disk to have the records."""


async def run_embedded(
    socket_path: str,
    state_dir: Path,
    stopping: trio.Event | None = None,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the CRI at ``socket_path`` until cancelled; ``started`` means that clients can connect. ``state_dir`` is
    created if it does not exist. ``stopping`` is set by the caller before it ends its pods because it stops itself: a
    container that ends then was interrupted, and has not completed. Call it in the process's main thread: the kernel
    ends the containers with the thread that started their keeper.

    Raises OSError if it cannot listen or write, and ``link.KeeperDied`` if the containers are lost.
    """
    staging = state_dir / "root"
    staging.mkdir(mode=0o700, parents=True, exist_ok=True)
    records = DiskRecords(state_dir)
    remembered = await records.load()
    link = start_keeper(staging)
    clock, events = SystemClock(), EventBoard()
    limits = processes.ProcessLimits(os.getpid(), processes.PROCESSES_PER_CONTAINER_MAX)
    try:
        async with trio.open_nursery() as nursery:
            # For the link and the containers' tasks, which outlive the server, for the graceful stop.
            shielded = await open_shielded_nursery(nursery)
            try:
                await shielded.nursery.start(link.run)
                nursery.start_soon(_give_up_starts_when_cancelled, link)
                _say(link.isolation.kind, link.isolation.reason)
                machine = Machine(
                    link.isolation,
                    os.geteuid(),
                    os.getegid(),
                    str(staging),
                    limits.available,
                    find_user,
                    frozenset(os.getgroups()),
                )
                addresses = default_addresses() or ("127.0.0.1",)
                going = trio.Event() if stopping is None else stopping
                pods = Pods(link, machine, events, clock, shielded.nursery, addresses, limits, records, going)
                pods.restore(remembered)
                commands, streaming = Commands(pods, link), StreamingServer(nursery)
                runtime = EmbeddedRuntime(pods, commands, streaming, events, clock)
                services: list[Servable] = [runtime, HostImages(state_dir, clock)]
                try:
                    await serve(services, socket_path, task_status=task_status)
                finally:
                    seconds = FAREWELL_SECONDS_MAX + RECORDING_SECONDS_MAX
                    with trio.CancelScope(shield=True, deadline=trio.current_time() + seconds):
                        await pods.farewell(FAREWELL_SECONDS_MAX)
            finally:
                shielded.cancel()
    finally:
        limits.close()


async def _give_up_starts_when_cancelled(link: KeeperLink) -> None:
    try:
        await trio.sleep_forever()
    finally:
        link.give_up_starts()


def _say(kind: str, reason: str) -> None:
    if kind == "none":
        log.warning(
            "embedded runtime: pods with volumes cannot start, because no mounts are possible: %s (start the agent "
            "as root, or allow unprivileged user namespaces, which no chroot has); containers share the machine's "
            "processes, mounts and host name",
            reason,
        )
    else:
        log.info("embedded runtime: containers have process and mount namespaces (as %s)", kind)


def find_user(wanted: int | str) -> User:
    """A user by uid or name. Raises KeyError."""
    found = pwd.getpwnam(wanted) if isinstance(wanted, str) else pwd.getpwuid(wanted)
    return User(found.pw_uid, found.pw_gid, tuple(os.getgrouplist(found.pw_name, found.pw_gid)), found.pw_dir)
