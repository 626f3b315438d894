"""``trikubelet reset``: end every pod of a node that is taken out of service, and remove their leftovers.

It runs the agent (``app/compose.py``) in the root directory that the other verbs find, on the recorded runtime, without
desired pods. So pods end like orphans: within their grace period, then their volumes, directories, cgroups and logs are
removed. It sees every pod on the runtime. So it claims the runtime as an agent does, and fails if another agent or a
kubelet uses it. Pods that the root directory does not know end too, and are named before; with ``--keep-unknown-pods``,
as in a purge of the package, they are left alone. On the embedded runtime the pods have ended with their agent, so only
their records are removed. Purging the package calls it, when files and flags are gone already, so the root directory
has a record of the runtime. It does not wait long for a runtime that does not answer, and not at all if no pod is
known.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.app import compose
from trikubelet.app.endpoint import FAKE, INSIDE, choose_endpoint, why_silent
from trikubelet.app.lock import LOCK_NAME, RootInUse, RootLock
from trikubelet.app.paths import RUNTIME_RECORD, START_RECORD, places_for
from trikubelet.app.root_dir import has_pods, recorded_runtime
from trikubelet.app.runtime_claim import RuntimeInUse, claimed_runtime
from trikubelet.app.runtime_questions import asked, listed_pods, unknown_of
from trikubelet.app.supervise import reason_of
from trikubelet.cli import asking
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.options import split_flags
from trikubelet.cli.words.reset import KEEP_UNKNOWN_PODS, parser
from trikubelet.core.unknown_pods import unknown_pods_end
from trikubelet.cri.endpoint import connect_failure, socket_path
from trikubelet.host.pod_directories import REMOVED_PODS
from trikubelet.host.uid_files import UNKNOWN_PODS, read_uids
from trikubelet.kit import klog
from trikubelet.kit.every import Every
from trikubelet.model.errors import StartFailed
from trikubelet.model.runtime_errors import RuntimeCallError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from trikubelet.app.compose import Agent
    from trikubelet.app.settings import Settings

LOOK_SECONDS: Final = 0.2
ANSWER_SECONDS_MAX: Final = 20.0
"""Seconds until the runtime must have listed its pods."""


def run(argv: Sequence[str]) -> int:
    """Run ``reset`` and return the exit code. Raises CommandFailed and OSError."""
    arguments, behind = split_flags(argv)
    args = parser().parse_args(arguments)
    flags = behind or ()
    handler = klog.LogHandler(klog.Verbosity(0))
    handler.setLevel(logging.WARNING)
    klog.install(handler)
    try:
        root = _root_dir(args, asking.settings_of(flags, args.root_dir))
        with _no_agent_in(root):
            print(_reset(root, flags, args.timeout, keeps_unknown=args.keep_unknown_pods))
    except* StartFailed as failed:
        raise CommandFailed(reason_of(failed)) from failed
    return 0


def _root_dir(args: argparse.Namespace, settings: Settings) -> Path:
    """Return the root directory: that of the given settings, or else the one that the other verbs find. Raises
    StartFailed and CommandFailed."""
    if "--root-dir" in settings.flags:
        return settings.root_dir
    if named := settings.configuration.container_runtime_endpoint:
        choice = choose_endpoint(named, standalone=False)
        return places_for(os.geteuid(), os.environ, inside=choice.inside).root_dir
    return asking.places_of(args).root_dir


@contextmanager
def _no_agent_in(root: Path) -> Iterator[None]:
    """Keep agents out of the root directory. Raises CommandFailed while one runs there, StartFailed and OSError."""
    if not (recorded_runtime(root) or os.path.exists(root / LOCK_NAME)):
        yield  # no agent has run there: taking the lock would create the directory
        return
    lock = RootLock(root)
    try:
        lock.__enter__()
    except RootInUse as used:
        raise CommandFailed(
            f"cannot reset {root}: an agent runs there, process {used.holder} (stop it first, or give another "
            "--root-dir)"
        ) from used
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


def _reset(root: Path, flags: Sequence[str], seconds_max: float, *, keeps_unknown: bool) -> str:
    """End the pods of a root directory without an agent, and return the text to print. Raises CommandFailed,
    StartFailed and OSError."""
    endpoint = recorded_runtime(root)
    if not endpoint or endpoint == FAKE:
        where = f"those on {endpoint} end with their agent" if endpoint else f"none was kept in {root}"
        return f"there is no pod to end: {where}"
    try:
        with claimed_runtime(endpoint, shares=False, beside_sharing=keeps_unknown):
            if endpoint not in INSIDE and (why := _no_pod_can_be_left(root, endpoint)):
                _forget(root)
                return f"there is no pod to end: {why}"
            with tempfile.TemporaryDirectory(prefix="trikubelet-reset-") as nothing:
                ours = [f"--root-dir={root}", f"--container-runtime-endpoint={endpoint}"]
                settings = _of_nothing(asking.settings_of([*flags, *ours]), nothing, keeps_unknown=keeps_unknown)
                if left := trio.run(_end_all, settings, seconds_max):
                    raise CommandFailed(f"some leftovers remain {left}")
            _forget(root)
    except RuntimeInUse as used:
        raise CommandFailed(
            f"cannot reset {root}: {used.other} uses {endpoint}, and its pods would end (stop it first)"
        ) from used
    which = f"every pod known to {root}" if keeps_unknown else "every pod"
    return f"{which} of {endpoint} has ended"


def _no_pod_can_be_left(root: Path, endpoint: str) -> str:
    """Return why there is nothing to do although the runtime does not answer: no process listens there, and the root
    directory knows no pod. Empty otherwise. Raises OSError."""
    problem = why_silent(endpoint)
    if not isinstance(problem, FileNotFoundError | NotADirectoryError | ConnectionRefusedError):
        return ""
    removed = root / REMOVED_PODS
    if has_pods(root) or (removed.exists() and removed.stat().st_size):
        return ""
    return f"none is known in {root}, and {connect_failure(socket_path(endpoint), problem)}"


def _forget(root: Path) -> None:
    """Forget the recorded runtime, so that the next agent may use any. Call this under the lock."""
    (root / RUNTIME_RECORD).unlink()
    (root / START_RECORD).unlink(missing_ok=True)


def _of_nothing(settings: Settings, nothing: str, *, keeps_unknown: bool) -> Settings:
    """Return the settings of the agent inside, whose manifests are in the empty directory ``nothing``."""
    return replace(
        settings,
        standalone=True,
        manifest_path=nothing,
        manifest_url="",
        api_port=0,
        ends_unknown_pods=not keeps_unknown,
        unknown_pods_means=f"trikubelet reset without {KEEP_UNKNOWN_PODS}",
    )


async def _end_all(settings: Settings, seconds_max: float) -> str:
    """Run the agent until there is no pod. Return the leftovers after a timeout, as text; empty for none. Raises
    StartFailed."""
    if settings.ends_unknown_pods and not settings.runtime.inside:
        seconds = min(seconds_max, ANSWER_SECONDS_MAX)
        if not await _name_unknown(settings, seconds):
            return f"after {seconds:g} s: {_silent(settings)}"
    left, seconds = _silent(settings), seconds_max
    is_collected = False
    async with trio.open_nursery() as nursery:
        with trio.move_on_after(seconds_max), trio.move_on_after(ANSWER_SECONDS_MAX) as answering:
            agent: Agent = await nursery.start(compose.run, settings, lambda: None, None)
            async for _ in Every(LOOK_SECONDS):
                left = _left(agent, settings)
                if agent.node.pleg.has_listed:
                    answering.deadline = math.inf
                if not left and not is_collected:
                    is_collected = True
                    agent.node.garbage.collect()  # the logs, which are otherwise kept for up to a minute
                if not left and agent.node.garbage.is_busy:
                    left = f"logs in {settings.pod_logs_dir}"
                if not left:
                    break
        if answering.cancelled_caught:
            seconds = ANSWER_SECONDS_MAX
        nursery.cancel_scope.cancel()
    return f"after {seconds:g} s: {left}" if left else ""


async def _name_unknown(settings: Settings, seconds_max: float) -> bool:
    """Print the pods that will end although the root directory does not know them. Return false if the runtime did not
    answer in time."""
    with trio.move_on_after(seconds_max):
        async for _ in Every(LOOK_SECONDS):
            with suppress(OSError, RuntimeCallError):  # it may be starting
                listed = await asked(settings.runtime.endpoint, listed_pods)
                if unknown := unknown_of(listed, settings.root_dir):
                    remedy = f"{KEEP_UNKNOWN_PODS} leaves them alone"
                    print(f"trikubelet: {unknown_pods_end(unknown, remedy)}", file=sys.stderr, flush=True)
                return True
    return False


def _silent(settings: Settings) -> str:
    return f"{settings.runtime.endpoint} does not answer"


def _left(agent: Agent, settings: Settings) -> str:
    """Return the known leftovers of ending pods as text, and why no more are known. Until the runtime has listed its
    pods it is unknown if it has any, because an agent starts without its answer, too."""
    pods, node = settings.root_dir / "pods", agent.node
    ours = filter(node.workers.known.__contains__, node.pleg.uids())
    # An agent that ends unknown pods has dropped that list; another one leaves their directories alone, too.
    foreign = frozenset[str]() if settings.ends_unknown_pods else read_uids(settings.root_dir / UNKNOWN_PODS)
    uids = {*ours, *((set(os.listdir(pods)) if pods.is_dir() else set()) - foreign)}
    left = [f"pods {', '.join(sorted(uids))}"] if uids else []
    if not node.pleg.has_listed:
        left.insert(0, _silent(settings))
    elif not node.workers.known.has_looked:
        left.insert(0, f"{pods} has not been read")
    elif uids and (problem := node.runtime_state.unhealthy()):
        left.append(f"{problem} ({settings.runtime.endpoint})")
    return "; ".join(left)
