"""Changes the group of a volume's files in a thread, with a warning if that is slow: a volume may have millions of
files, and its pod waits for them."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.names import object_ref
from trikubelet.kit.threads import StillRunning

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.kit.threads import ThreadPool
    from trikubelet.model.k8s import Pod

log = logging.getLogger(__name__)

SLOW_SECONDS: Final = 30.0
"""Seconds until the warning, like upstream."""


class _Files:
    """The number of changed files. A thread counts, others read."""

    def __init__(self) -> None:
        self.done = 0

    def count(self) -> None:
        self.done += 1


async def change_ownership_in_thread(
    pod: Pod, name: str, threads: ThreadPool, work: Callable[[Callable[[], None]], None]
) -> None:
    """Run ``work`` for the pod's volume ``name`` in a thread; it calls its argument for each file. Raises its errors,
    and StillRunning."""
    files = _Files()
    failed: list[Exception] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_warn_when_slow, pod, name, files)
        try:
            await threads.run(partial(work, files.count), f"{pod.metadata.uid}/{name}", may_hang=True)
        except (OSError, ValueError, StillRunning) as error:
            failed.append(error)
        nursery.cancel_scope.cancel()
    if failed:
        raise failed[0]


async def _warn_when_slow(pod: Pod, name: str, files: _Files) -> None:
    while True:
        await trio.sleep(SLOW_SECONDS)
        log.warning(
            "Pod %s: setting the ownership of volume %s is taking longer than expected, %d files so far; consider "
            "fsGroupChangePolicy: OnRootMismatch",
            object_ref(pod),
            name,
            files.done,
        )
