"""``trikubelet [flags]``: from the command line to the exit code.

    flags ─► settings ─► log ─► kubeconfig ─► root lock ─► claim of the runtime ─► supervise( compose.run ) ─► exit code

All errors in flags and files are reported together, before anything is changed. From the lock on this process is the
only agent of its root directory; from ``supervise`` on, see there.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from trikubelet import __version__
from trikubelet.app import compose, doctor, supervise
from trikubelet.app.endpoint import EMBEDDED
from trikubelet.app.flag_help import agent_help
from trikubelet.app.flags import parse_agent_flags, written_again
from trikubelet.app.greeting import greet
from trikubelet.app.last_start import record_start, this_start
from trikubelet.app.lock import LockFile, RootLock
from trikubelet.app.root_dir import bind_to_runtime
from trikubelet.app.runtime_claim import claimed_runtime
from trikubelet.app.settings import Surroundings, load_settings
from trikubelet.app.translate import bounds_of
from trikubelet.host.own_process import take_name
from trikubelet.kit import klog
from trikubelet.kit.heap import look_after_heap
from trikubelet.kit.lookups import Lookups
from trikubelet.kit.open_files import allow_open_files
from trikubelet.kit.threads import take_short_turns
from trikubelet.model.errors import StartFailed
from trikubelet.node.agent_stop import KILL_SECONDS_MAX
from trikubelet.server.health import REPORTED_ONLY

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from trikubelet.app.access import Found
    from trikubelet.app.compose import Agent
    from trikubelet.app.settings import Settings
    from trikubelet.server.health import Check, Checks

log = logging.getLogger(__name__)

OPEN_FILES_WANTED: Final = 4096
"""Open files: watches of single objects and clients of the node's API may need 1024 each, statuses and calls a few
more; the rest is for pods' logs, mounts and probes."""


def run_agent(argv: Sequence[str]) -> int:
    """Run the agent with these flags and return the exit code. The reason of a failure is the last line on standard
    error."""
    try:
        flags = parse_agent_flags(argv)
        if flags.show == "help":
            print(agent_help())
            return supervise.EXIT_GOOD
        if flags.show == "version":
            print(f"trikubelet {__version__}")
            return supervise.EXIT_GOOD
        settings = load_settings(flags, Surroundings(os.geteuid(), os.environ, socket.gethostname()))
        handler = _start_log(settings)
        found = compose.find_access(settings)
        with RootLock(settings.root_dir, shares_runtime=settings.shares_runtime), _claimed(settings):
            take_name(sys.argv[0])  # not before the lock is held: other agents look for kubelets that hold none
            takes_over = not settings.standalone or settings.ends_unknown_pods
            if note := bind_to_runtime(settings.root_dir, settings.runtime.endpoint, takes_over=takes_over):
                settings = replace(settings, notes=(*settings.notes, note))
            record_start(settings.root_dir, this_start(sys.argv[0], written_again(argv), os.environ))
            return supervise.run(
                partial(_main, settings, lambda: handler.problem, found),
                checks=_vital,
                status=_status,
                stop_seconds_max=_stop_seconds_max(settings),
                beside=lambda agent: greet(agent.node, settings),
            )
    except StartFailed as error:
        return supervise.last_words(error, sys.stderr)


def _claimed(settings: Settings) -> AbstractContextManager[None]:
    """Return the claim of the runtime, made before anything about it is recorded. With ``--lock-file`` agents hand a
    node over: the next one starts next to the present one, and waits."""
    return claimed_runtime(
        settings.runtime.endpoint,
        shares=settings.shares_runtime or bool(settings.lock_file),
        beside_sharing=not settings.ends_unknown_pods,
    )


def _stop_seconds_max(settings: Settings) -> float:
    """Return how long the agent may take to stop, with the time for the pods that end with it."""
    bounds = bounds_of(settings.configuration)
    ends_pods = settings.runtime.endpoint == EMBEDDED and settings.embedded_stop_seconds
    return bounds.stop_seconds_max + (settings.embedded_stop_seconds + KILL_SECONDS_MAX if ends_pods else 0)


async def _main(
    settings: Settings, log_problem: Check, found: Found | None, *, task_status: trio.TaskStatus[Agent]
) -> None:
    """Run the agent under ``--lock-file``, if there is one: it waits for the file's lock, and ends when another agent
    opens the file. The log begins only here, because a reader of its first line may send a signal."""
    _say_settings(settings)
    _allow_files(settings.configuration.max_open_files)
    lock_file = LockFile(settings.lock_file) if settings.lock_file else None
    if lock_file is None:
        await _run(settings, log_problem, found, task_status=task_status)
        return
    await lock_file.acquire()
    try:
        async with trio.open_nursery() as nursery:
            task_status.started(await nursery.start(_run, settings, log_problem, found))
            if settings.exit_on_lock_contention:
                await lock_file.contended()
                log.info("Stopping: another agent waits for %s", settings.lock_file)
                nursery.cancel_scope.cancel()
    finally:
        lock_file.release()


async def _run(
    settings: Settings, log_problem: Check, found: Found | None, *, task_status: trio.TaskStatus[Agent]
) -> None:
    Lookups.use()
    take_short_turns()
    async with trio.open_nursery() as beside:
        beside.start_soon(look_after_heap)
        beside.start_soon(doctor.warn, settings)
        await compose.run(settings, log_problem, found, task_status=task_status)
        beside.cancel_scope.cancel()


def _start_log(settings: Settings) -> klog.LogHandler:
    klog.make_patient()
    logging_ = settings.configuration.logging
    modules = [(one.file_pattern, one.verbosity) for one in logging_.vmodule]
    handler = klog.LogHandler(klog.Verbosity(logging_.verbosity, modules), logging_.format)
    klog.install(handler)
    return handler


def _say_settings(settings: Settings) -> None:
    """Log the lines an operator looks for first."""
    log.info("trikubelet %s, node %s, root directory %s", __version__, settings.node_name, settings.root_dir)
    for note in settings.notes:
        log.info("%s", note)
    for warning in settings.warnings:
        log.warning("%s", warning)


def _allow_files(wanted: int) -> None:
    """Raise the limit of open files to the configured one; log a warning where it stays low."""
    if (allowed := allow_open_files(wanted)) < OPEN_FILES_WANTED:
        log.warning(
            "This process may have %d files open, and a busy node may need %d "
            "(raise its limit: LimitNOFILE= of its unit, ulimit -Hn)",
            allowed,
            OPEN_FILES_WANTED,
        )


def _vital(agent: Agent) -> Checks:
    """Return the checks behind systemd's watchdog: failures that a restart of the agent would repair, unlike an
    unavailable runtime."""
    return {name: check for name, check in agent.checks.items() if name not in REPORTED_ONLY}


def _status(agent: Agent) -> str:
    """Return one line for ``systemctl status`` and the log."""
    running = agent.node.pleg.counts().running_pods
    problem = agent.node.runtime_state.unhealthy() or f"container runtime {agent.node.runtime_state.name}"
    return f"{len(agent.node.desired)} pods desired, {running} with a sandbox; {problem}"
