"""``trikubelet reset``: end every pod of a node that is given up, and take down what was kept for them.

It is the agent once more (``app/compose.py``), in the same root directory and on the same runtime, and no pod is
desired. So pods end as orphans do: with their grace, then their volumes, directories, cgroups and logs. It
sees what an agent sees, which is every pod on the runtime; so it refuses where a kubelet runs, or another agent on that
runtime, whose root directory may be another one by now. On the embedded runtime the pods have ended with their agent:
what is remembered of them goes. Purging the package calls it, when files and flags are gone
already: which runtime it was stands in the root directory.
"""

from __future__ import annotations

import logging
import os
import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.app import compose
from trikubelet.app.endpoint import FAKE, INSIDE, choose_endpoint
from trikubelet.app.lock import RootLock
from trikubelet.app.neighbours import agents_on
from trikubelet.app.paths import RUNTIME_RECORD, START_RECORD, places_for
from trikubelet.app.root_dir import recorded_runtime
from trikubelet.app.supervise import reason_of
from trikubelet.cli import asking
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.options import split_flags
from trikubelet.cli.words.reset import parser
from trikubelet.host.processes import processes_named
from trikubelet.kit import klog
from trikubelet.kit.every import Every
from trikubelet.model.errors import StartFailed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trikubelet.app.compose import Agent
    from trikubelet.app.settings import Settings

LOOK_SECONDS: Final = 0.2


def run(argv: Sequence[str]) -> int:
    """Carry out ``reset``; the exit code. Raises CommandFailed and OSError."""
    arguments, behind = split_flags(argv)
    args = parser().parse_args(arguments)
    flags = behind or ()
    handler = klog.LogHandler(klog.Verbosity(0))
    handler.setLevel(logging.WARNING)
    klog.install(handler)
    try:
        root = _root_dir(asking.settings_of(flags, args.root_dir))
        endpoint = recorded_runtime(root)
        if not endpoint or endpoint == FAKE:
            where = f"those on {endpoint} end with their agent" if endpoint else f"none was kept in {root}"
            print(f"there is no pod to end: {where}")
            return 0
        is_shared = endpoint not in INSIDE  # with whoever else may be on that runtime
        if is_shared and (kubelets := processes_named("kubelet")):
            raise CommandFailed(f"process {kubelets[0]} is a kubelet, whose pods these may be: stop it first")
        with tempfile.TemporaryDirectory(prefix="trikubelet-reset-") as nothing:
            ours = [f"--root-dir={root}", f"--container-runtime-endpoint={endpoint}"]
            settings = _of_nothing(asking.settings_of([*flags, *ours]), nothing)
            with RootLock(root):
                if is_shared and (agents := agents_on(endpoint)):
                    raise CommandFailed(f"process {agents[0]} is an agent on {endpoint}: stop it first")
                if left := trio.run(_end_all, settings, args.timeout):
                    raise CommandFailed(f"not all of it is gone after {args.timeout:g} s: {left}")
                (root / RUNTIME_RECORD).unlink()
                (root / START_RECORD).unlink(missing_ok=True)  # this node is given up
    except* StartFailed as failed:
        raise CommandFailed(reason_of(failed)) from failed
    print(f"every pod of {endpoint} has ended")
    return 0


def _root_dir(settings: Settings) -> Path:
    """Where an agent with these settings has its pods. Raises StartFailed."""
    if "--root-dir" in settings.flags:
        return settings.root_dir
    # Only by what was named: one whose socket has gone since is still the runtime its pods are on.
    named = choose_endpoint(settings.configuration.container_runtime_endpoint, standalone=False)
    return places_for(os.geteuid(), os.environ, inside=named.inside).root_dir


def _of_nothing(settings: Settings, nothing: str) -> Settings:
    """Those of the agent inside, to which the directory ``nothing`` is all its manifests."""
    return replace(
        settings, standalone=True, manifest_path=nothing, manifest_url="", api_port=0, ends_unknown_pods=True
    )


async def _end_all(settings: Settings, seconds_max: float) -> str:
    """Be the agent until there is no pod; what is left when the time is over, as text. Raises StartFailed."""
    left = _silent(settings)
    is_collected = False
    async with trio.open_nursery() as nursery:
        with trio.move_on_after(seconds_max):
            agent: Agent = await nursery.start(compose.run, settings, lambda: None, None)
            async for _ in Every(LOOK_SECONDS):
                left = _left(agent, settings)
                if not left and not is_collected:
                    is_collected = True
                    agent.node.garbage.collect()  # the logs, which may lie there for a minute otherwise
                if not left and agent.node.garbage.is_busy:
                    left = f"logs in {settings.pod_logs_dir}"
                if not left:
                    break
        nursery.cancel_scope.cancel()
    return left


def _silent(settings: Settings) -> str:
    return f"{settings.runtime.endpoint} does not answer"


def _left(agent: Agent, settings: Settings) -> str:
    """What there is still of pods, as far as that is known, and why no more is, as text. Until the runtime has listed
    its pods once nobody knows that it has none: an agent starts without its answer, too."""
    pods, node = settings.root_dir / "pods", agent.node
    uids = {*node.pleg.uids(), *(os.listdir(pods) if pods.is_dir() else ())}
    left = [f"pods {', '.join(sorted(uids))}"] if uids else []
    if not node.pleg.has_listed:
        left.insert(0, _silent(settings))
    elif uids and (problem := node.runtime_state.unhealthy()):
        left.append(f"{settings.runtime.endpoint}: {problem}")
    return "; ".join(left)
