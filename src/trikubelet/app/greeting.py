"""The line for a person who has started an agent at a terminal: it is ready, and the next command to type.

The log of a start reports its steps, not its end. So the line is printed when every pod has begun, and not much later
than a few seconds, because a pod may wait for its image for long. Only a node without a cluster prints it, and only if
standard error is a terminal.
"""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import sys
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.app.paths import places_for
from trikubelet.core.pod_status.phase import PENDING
from trikubelet.kit.barrier import Barrier
from trikubelet.kit.every import Every

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.app.node import Node
    from trikubelet.app.settings import Settings

log = logging.getLogger(__name__)

BEGUN_SECONDS_MAX: Final = 10.0
LOOK_SECONDS: Final = 0.25


async def greet(node: Node, settings: Settings) -> None:
    """Print the line, if standard error is a terminal. Never fails: the agent works without it."""
    if not settings.standalone or settings.configuration.logging.format != "text" or not sys.stderr.isatty():
        return
    with Barrier(lambda error: log.debug("The line that the agent is ready cannot be printed", exc_info=error)):
        with trio.move_on_after(BEGUN_SECONDS_MAX):
            async for _ in Every(LOOK_SECONDS):
                if node.desired.all_ready and not _waiting(node):
                    break
        command = client_command(sys.argv[0], settings, os.environ)
        print(ready_line(len(node.desired), _waiting(node), _place(settings), command), file=sys.stderr)


def _place(settings: Settings) -> str:
    """Return the source of the pods, as a path from here; a URL may have a password in it."""
    if not settings.manifest_path:
        return "the manifest URL"
    return min(os.path.relpath(settings.manifest_path), settings.manifest_path, key=len)


def _waiting(node: Node) -> int:
    """Return the number of pods that have not begun to run."""
    statuses = (node.statuses.get(pod.metadata.uid) for pod in node.desired)
    return sum(status is None or status.phase in ("", PENDING) for status in statuses)


def ready_line(pods: int, waiting: int, place: str, command: str) -> str:
    """Return the line. ``waiting``: how many of the pods have not begun; ``place``: their source; ``command``: the next
    command to type."""
    found = f"{pods} pod{'' if pods == 1 else 's'} from {place}" if pods else f"no pods yet, put manifests into {place}"
    late = f", {waiting} not begun yet" if waiting else ""
    return f"ready: {found}{late}; in another terminal: {command}"


def client_command(argv0: str, settings: Settings, environment: Mapping[str, str]) -> str:
    """Return the command that shows the agent's pods: with the program as it was called, and the flag without which it
    would look for another agent."""
    name = os.path.basename(argv0)
    if name == "__main__.py":  # python -m trikubelet
        words = [sys.executable, "-m", "trikubelet"]
    else:
        found = shutil.which(name)
        words = [name if found and os.path.realpath(found) == os.path.realpath(argv0) else argv0]
    usual = places_for(os.geteuid(), environment, inside=settings.runtime.inside).root_dir
    flags = [] if settings.root_dir == usual else [f"--root-dir={settings.root_dir}"]
    return shlex.join([*words, "get", "pods", *flags])
