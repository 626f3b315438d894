"""Keeps the agent, and processes without a cgroup, in the cgroups that the configuration names for them."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import trio

from trikubelet.kit.every import Every
from trikubelet.kit.failure_log import FailureLog
from trikubelet.stats.provider import AGENT_PART, MISC_PART, RUNTIME_PART

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.app.settings import Settings
    from trikubelet.kit.threads import ThreadPool

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 60.0
"""Upstream's container manager looks as often. A process that another program moved away comes back then."""


class Cgroups(Protocol):
    """The machine's cgroups. Both block, and raise OSError where a process cannot be moved."""

    def enter(self, path: str) -> None:
        """Move this process to a cgroup."""
        ...

    def gather(self, path: str) -> None:
        """Move the processes of the root cgroup to another one."""
        ...


def named_parts(settings: Settings) -> Mapping[str, str]:
    """Return the cgroups that the settings name for parts of the node, by upstream's names of the parts."""
    configuration = settings.configuration
    named = {
        AGENT_PART: configuration.kubelet_cgroups,
        RUNTIME_PART: settings.runtime_cgroups,
        MISC_PART: configuration.system_cgroups,
    }
    return {part: path for part, path in named.items() if path}


async def keep_part_cgroups(
    parts: Mapping[str, str],
    cgroups: Cgroups,
    threads: ThreadPool,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Move processes to the cgroups of ``parts`` now and every minute, until cancelled. The runtime is not moved: the
    agent did not start it. A cgroup that cannot be used is logged once an hour, and stops nothing."""
    failures = FailureLog()
    # First the processes of the root cgroup: the agent may be among them, and has a cgroup of its own.
    moves = [
        ("systemCgroups", parts.get(MISC_PART), cgroups.gather),
        ("kubeletCgroups", parts.get(AGENT_PART), cgroups.enter),
    ]
    task_status.started()
    async for _ in Every(LOOK_SECONDS):
        for field, path, move in moves:
            if path is None:
                continue
            try:
                await threads.run(partial(move, path))
            except OSError as error:
                if failures.may_log(field):
                    log.warning("cannot move processes to the cgroup %s of %s: %s", path, field, error)
            else:
                failures.works_again(field)
