"""Single questions to a container runtime, from commands that are not the agent: the doctor and ``reset``.

Each has a connection and a deadline of its own, because the agent's channel would retry forever.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from trikubelet.core.relist import Relist
from trikubelet.cri.channel import open_channel
from trikubelet.cri.endpoint import socket_path
from trikubelet.cri.runtime import CriRuntime
from trikubelet.host.uid_files import UNKNOWN_PODS, read_uids
from trikubelet.kit.unix_socket import connect_unix
from trikubelet.model.runtime_errors import RuntimeUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from pathlib import Path

    from trikubelet.core.relist import PodRecord

T = TypeVar("T")

ANSWER_SECONDS_MAX: Final = 5.0


async def asked(endpoint: str, question: Callable[[CriRuntime], Awaitable[T]]) -> T:
    """The answer of the runtime there. Raises OSError where nothing listens, and RuntimeCallError."""
    await (await connect_unix(socket_path(endpoint))).aclose()  # a channel would retry forever
    async with open_channel(endpoint, quiet=True) as channel:  # the agent's own channel logs
        try:
            with trio.fail_after(ANSWER_SECONDS_MAX):
                return await question(CriRuntime(channel))
        except trio.TooSlowError as error:
            raise RuntimeUnavailable(channel.statistics().last_error or "no answer") from error


async def running_pods(runtime: CriRuntime) -> Sequence[PodRecord]:
    """The pods that run on it. Raises RuntimeCallError."""
    listed = Relist()
    listed.take(await runtime.list_sandboxes(), await runtime.list_containers())
    return listed.running()


def names_of_unknown(running: Iterable[PodRecord], root_dir: Path) -> list[tuple[str, str]]:
    """The namespaces and names of the pods that a root directory does not know. Call this after the runtime has listed
    its pods, because a pod's directory is made before its sandbox. Raises OSError."""
    pods = root_dir / "pods"
    known = set(os.listdir(pods)) if pods.is_dir() else set()
    known -= read_uids(root_dir / UNKNOWN_PODS)
    return [(one.namespace, one.name) for one in running if one.uid not in known]
