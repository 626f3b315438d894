"""``trikubelet hollow``: any number of nodes of a cluster in one process, whose containers are simulated.

It is for trying schedulers, controllers and API servers with a cluster that is larger than the machine. It runs until a
signal ends it; see docs/hollow-nodes.md.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.app import supervise
from trikubelet.app.flags import parse_agent_flags
from trikubelet.app.lock import RootLock
from trikubelet.app.translate import bounds_of
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.hollow import Hollow, allow_files, name_node, run_hollow, settings_of
from trikubelet.cli.words.hollow import parser
from trikubelet.host.node import read_node
from trikubelet.kit import klog
from trikubelet.model.errors import StartFailed
from trikubelet.model.names import subdomain_problem
from trikubelet.model.quantity import whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.app.settings import Settings

OURS: Final = ("hostname-override", "container-runtime-endpoint", "standalone", "healthz-port", "pod-manifest-path")


def run(argv: Sequence[str]) -> int:
    """Run ``hollow`` and return the exit code. Raises CommandFailed."""
    args, agent_flags = parser().parse_known_args(argv)
    _refuse(agent_flags)
    named = (
        f"--kubeconfig={args.kubeconfig}" if args.kubeconfig else f"--bootstrap-kubeconfig={args.bootstrap_kubeconfig}"
    )
    names = [f"{args.prefix}-{number}" for number in range(args.first, args.first + args.nodes)]
    if problem := subdomain_problem(names[-1]):
        raise CommandFailed(f"--prefix: {names[-1]!r} {problem}")
    try:
        with ExitStack() as places:
            root = Path(args.root_dir or places.enter_context(tempfile.TemporaryDirectory(prefix="trikubelet-hollow-")))
            places.enter_context(RootLock(root))
            nodes = [
                settings_of(name, root.absolute(), [*agent_flags, named], os.geteuid(), os.environ) for name in names
            ]
            allow_files(len(nodes))
            reading = read_node(root_dir=root)
            reading = replace(reading, cpus=args.cpus or reading.cpus, memory_bytes=args.memory or reading.memory_bytes)
            return _be(Hollow(nodes, reading))
    except StartFailed as error:
        return supervise.last_words(error, sys.stderr)


def _be(hollow: Hollow) -> int:
    first, last = hollow.nodes[0], hollow.nodes[-1]
    handler = _start_log(first)
    for warning in first.warnings:
        logging.getLogger(__name__).warning("%s", warning)

    who = f"{len(hollow.nodes)} nodes, {first.node_name} to {last.node_name}"

    async def main(*, task_status: trio.TaskStatus[None]) -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(run_hollow, hollow, lambda: handler.problem)
            print(f"ready: {who}", flush=True)
            task_status.started()

    return supervise.run(
        main,
        checks=lambda _: {"log": lambda: handler.problem},
        status=lambda _: who,
        stop_seconds_max=bounds_of(first.configuration).stop_seconds_max,
    )


def _start_log(settings: Settings) -> klog.LogHandler:
    """Log warnings only, unless ``-v`` is given: the start of one agent logs too much for hundreds of them."""
    klog.make_patient()
    logging_ = settings.configuration.logging
    handler = klog.LogHandler(klog.Verbosity(logging_.verbosity), logging_.format)
    if not logging_.verbosity:
        handler.setLevel(logging.WARNING)
    handler.addFilter(name_node)
    klog.install(handler)
    return handler


def _refuse(agent_flags: Sequence[str]) -> None:
    """Raises CommandFailed for the agent's flags that cannot apply to many nodes, and for unknown flags."""
    flags = parse_agent_flags(agent_flags)
    if flags.faults:
        raise CommandFailed("\n".join(map(str, flags.faults)))
    for word in agent_flags:
        name = word.partition("=")[0].removeprefix("--").replace("_", "-")
        if name in OURS:
            raise CommandFailed(f"--{name} is not for hollow nodes, which have their own")
        if name == "root-dir":  # written so that argparse has not taken it
            raise CommandFailed("--root-dir is here the parent directory of all nodes: write it as --root-dir=DIR")


def read_bytes(said: str) -> int:
    """Return an amount of memory. Raises ValueError."""
    size = whole(said)
    if size <= 0:
        raise ValueError(f"{said!r} is not more than 0 bytes")
    return size
