"""Which cgroup driver the node has: the container runtime's, for both make cgroups in the same trees.

A runtime that reports it (``RuntimeConfig``) overrides the configuration, as upstream does since 1.34; else the
configuration counts. It is asked before anything is made: the names of all cgroups depend on it.

Where it is unavailable then, the agent starts with the configured driver, so that manifests are read all the same, and
asks until there is an answer. If that is another driver, the process ends: a running agent cannot switch drivers, and
the next process asks before it starts.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.kit.every import Every
from trikubelet.model.errors import StartFailed
from trikubelet.model.frozen import Frozen
from trikubelet.model.runtime_errors import RuntimeCallError

if TYPE_CHECKING:
    from trikubelet.ports import Runtime

log = logging.getLogger(__name__)

ASK_PERIOD_SECONDS: Final = 0.5
ASK_SECONDS_MAX: Final = 3.0
"""A runtime is often started with its agent; one that is unavailable for longer must not delay reading manifests."""


class Driver(Frozen):
    """The cgroup driver an agent starts with; ``assumed``: the runtime could not be asked about it yet."""

    name: str
    assumed: bool = False


async def ask_driver(runtime: Runtime, configured: str) -> Driver:
    """The runtime's driver; the ``configured`` one where it does not report any, or, assumed, does not answer in
    time."""
    reported = await _answer(runtime)
    if reported is None:
        log.warning("Cgroup driver: %s, as configured: the container runtime does not answer", configured)
        return Driver(configured, assumed=True)
    if reported not in ("", configured):
        log.info("Cgroup driver: %s, as the container runtime has it; cgroupDriver says %s", reported, configured)
    return Driver(reported or configured)


async def confirm_driver(runtime: Runtime, assumed: str) -> None:
    """Ask until the runtime answers. Raises StartFailed where it has another driver than was ``assumed``."""
    reported = None
    while reported is None:
        reported = await _answer(runtime)
    if reported not in ("", assumed):
        raise StartFailed(
            f"cgroup driver: the container runtime, which did not answer at the start, has {reported}, and this agent "
            f"began with {assumed}: start it again (containers run on), and set cgroupDriver to {reported}"
        )


async def _answer(runtime: Runtime) -> str | None:
    """The driver that the runtime reports, "" where it reports none; None where it does not answer in time."""
    with trio.move_on_after(ASK_SECONDS_MAX):
        async for _ in Every(ASK_PERIOD_SECONDS):
            try:
                return await runtime.cgroup_driver()
            except RuntimeCallError as error:
                log.debug("Container runtime does not say its cgroup driver yet: %s", error)
    return None
