"""Hollow nodes: many in one process, each a whole agent, none of which runs anything.

    settings of each node ─► one after another: compose.run (its fake runtime, its parts, its membership) ─► to the end

Nothing in them is made for this: a hollow node is the agent on the endpoint ``fake:``, with a name and a directory of
its own. What they share is the process, the machine's reading and the log, whose lines say which node they are about.
One that breaks ends them all, as it would end an agent of its own: whoever tests a cluster with it must see it.
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
"""Open at once: a quiet node was seen to have 8, and status writes alone may come to 16 connections; each ConfigMap and
Secret that its pods name is one more."""
FILES_BESIDE_MAX: Final = 100

_node: ContextVar[str] = ContextVar("hollow node", default="")


@dataclass(frozen=True, slots=True)
class Hollow:
    """What is to be: nodes by their settings, and the machine that each says it is."""

    nodes: Sequence[Settings]
    reading: NodeReading


def settings_of(name: str, root_dir: Path, flags: Sequence[str], uid: int, environment: Mapping[str, str]) -> Settings:
    """The settings of one node: ``flags`` are an agent's flags, for all nodes the same. What it keeps is below
    ``root_dir``, its kubeconfig too when it is to make one itself. Raises StartFailed, one line per fault."""
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
    """Be all the nodes until cancelled. Started: each takes pods, and has begun to join its cluster.
    Raises what an agent raises."""
    Lookups.use()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(look_after_heap)
        for settings in hollow.nodes:
            _node.set(settings.node_name)  # for this node's tasks; each takes the context it is started in
            await nursery.start(compose.run, settings, log_problem, compose.find_access(settings), hollow.reading)
        _node.set("")
        task_status.started()


def name_node(record: logging.LogRecord) -> bool:
    """A filter that lets every line pass and puts the node before it that it is about."""
    if name := _node.get():
        record.msg, record.args = f"{name}: {record.getMessage()}", ()
    return True


def allow_files(nodes: int) -> None:
    """Have the kernel let this process open as many files as so many nodes need. Raises StartFailed."""
    needed = FILES_BESIDE_MAX + FILES_PER_NODE_MAX * nodes
    if (allowed := allow_open_files(needed)) < needed:
        raise StartFailed(
            f"{nodes} nodes may need {needed} open files and this process may have {allowed}: ask for fewer, in "
            f"several processes if need be, or allow more (ulimit -Hn {needed})"
        )
