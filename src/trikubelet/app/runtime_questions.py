"""Single requests to a container runtime, from commands that are not the agent: the doctor and ``reset``.

Each has a connection and a deadline of its own, because the agent's channel would retry forever.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from trikubelet.core.relist import Relist
from trikubelet.core.unknown_pods import UnknownOnRuntime
from trikubelet.cri.channel import open_channel
from trikubelet.cri.endpoint import socket_path
from trikubelet.cri.runtime import CriRuntime
from trikubelet.host.pod_directories import REMOVED_PODS
from trikubelet.host.uid_files import UNKNOWN_PODS, read_uids
from trikubelet.kit.unix_socket import connect_unix
from trikubelet.model.runtime_errors import RuntimeUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from trikubelet.ports import Runtime

T = TypeVar("T")

ANSWER_SECONDS_MAX: Final = 5.0


async def asked(endpoint: str, question: Callable[[CriRuntime], Awaitable[T]]) -> T:
    """Return the answer of the runtime there. Raises OSError if nothing listens, and RuntimeCallError."""
    await (await connect_unix(socket_path(endpoint))).aclose()  # a channel would retry forever
    async with open_channel(endpoint, quiet=True) as channel:  # the agent's own channel logs
        try:
            with trio.fail_after(ANSWER_SECONDS_MAX):
                return await question(CriRuntime(channel))
        except trio.TooSlowError as error:
            raise RuntimeUnavailable(channel.statistics().last_error or "no answer") from error


async def listed_pods(runtime: Runtime) -> Relist:
    """Return all pods of the runtime. Raises RuntimeCallError."""
    listed = Relist()
    listed.take(await runtime.list_sandboxes(), await runtime.list_containers())
    return listed


def unknown_of(listed: Relist, root_dir: Path) -> UnknownOnRuntime:
    """Return the listed pods that a root directory does not know. Call this after the runtime has listed them, because
    a pod's directory is made before its sandbox. Raises OSError."""
    pods = root_dir / "pods"
    known = set(os.listdir(pods)) if pods.is_dir() else set()
    known -= read_uids(root_dir / UNKNOWN_PODS)
    known |= read_uids(root_dir / REMOVED_PODS)
    unknown = [one for one in listed.pods() if one.uid not in known]
    running = [(one.namespace, one.name) for one in unknown if listed.is_running(one.uid)]
    return UnknownOnRuntime(running, ended=len(unknown) - len(running))
