"""The embedded runtime: a CRI v1 server of our own, for machines without containerd and for first steps.

Its pods are processes of this machine, started by ``keeper``, which ends them with the agent. The agent talks to it
over a Unix socket with the client for any other runtime. ``runtime`` connects the parts; nothing of it is loaded unless
it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import trio


async def run_embedded(
    socket_path: str, state_dir: Path, stopping: trio.Event | None = None, *, task_status: trio.TaskStatus[None]
) -> None:
    """See ``runtime.run_embedded``."""
    from trikubelet.embedded import runtime  # noqa: PLC0415 - an agent on containerd does not pay for it

    await runtime.run_embedded(socket_path, state_dir, stopping, task_status=task_status)
