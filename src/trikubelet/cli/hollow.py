"""Hollow nodes: many in one process, each a whole agent with simulated containers.

    settings of each node ─► one after another: compose.run (its fake runtime, its parts, its membership) ─► to the end

No part is special: a hollow node is the agent on the endpoint ``fake:``, with a name and a directory of its own. The
nodes share the process, the machine's measurements and the log, whose lines begin with the node's name. A broken node
ends them all, as it would end a single agent, so that a test of a cluster notices it.
"""

from __future__ import annotations

import logging
import socket
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.app import compose
from trikubelet.app.flags import parse_agent_flags
from trikubelet.app.settings import Surroundings, load_settings
from trikubelet.kit.heap import look_after_heap
from trikubelet.kit.lookups import Lookups
from trikubelet.kit.open_files import allow_open_files
from trikubelet.model.errors import StartFailed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from trikubelet.app.settings import Settings
    from trikubelet.model.node_reading import NodeReading
    from trikubelet.server.health import Check

FILES_PER_NODE_MAX: Final = 64
"""Open files of a node: a quiet node has 8, status writes may need 16 connections, and each ConfigMap and Secret of its
pods needs one more."""
FILES_BESIDE_MAX: Final = 100

_node: ContextVar[str] = ContextVar("hollow node", default="")


@dataclass(frozen=True, slots=True)
class Hollow:
    """The nodes by their settings, and the machine that each reports."""

    nodes: Sequence[Settings]
    reading: NodeReading


def settings_of(name: str, root_dir: Path, flags: Sequence[str], uid: int, environment: Mapping[str, str]) -> Settings:
    """Return the settings of one node. ``flags``: the agent's flags, the same for all nodes. Its files are below
    ``root_dir``, including its kubeconfig if it makes one itself. Raises StartFailed, one line per fault."""
    root = root_dir / name
    own = [
        f"--hostname-override={name}",
        f"--root-dir={root}",
        "--container-runtime-endpoint=fake:",
        "--healthz-port=0",
        "--enable-server=false",
    ]
    if any(word.startswith("--bootstrap-kubeconfig") for word in flags):
        own.append(f"--kubeconfig={root / 'kubeconfig'}")
    return load_settings(parse_agent_flags([*flags, *own]), Surroundings(uid, environment, socket.gethostname()))


async def run_hollow(
    hollow: Hollow, log_problem: Check, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Run all nodes until cancelled. Started: each accepts pods, and has begun to join its cluster. Raises an agent's
    errors."""
    Lookups.use()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(look_after_heap)
        for settings in hollow.nodes:
            _node.set(settings.node_name)  # for this node's tasks; each inherits the context it is started in
            await nursery.start(compose.run, settings, log_problem, compose.find_access(settings), hollow.reading)
        _node.set("")
        task_status.started()


def name_node(record: logging.LogRecord) -> bool:
    """Put the name of its node before a log line. Always true, so every line passes the filter."""
    if name := _node.get():
        record.msg, record.args = f"{name}: {record.getMessage()}", ()
    return True


def allow_files(nodes: int) -> None:
    """Raise the limit of open files to what so many nodes need. Raises StartFailed."""
    needed = FILES_BESIDE_MAX + FILES_PER_NODE_MAX * nodes
    if (allowed := allow_open_files(needed)) < needed:
        raise StartFailed(
            f"{nodes} nodes may need {needed} open files and this process may have {allowed}: ask for fewer, in "
            f"several processes if need be, or allow more (ulimit -Hn {needed})"
        )
