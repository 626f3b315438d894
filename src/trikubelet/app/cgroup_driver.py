"""The node's cgroup driver: the container runtime's, because both make cgroups in the same trees.

A runtime that reports it (``RuntimeConfig``) overrides the configuration, as upstream does since 1.34; else the
configuration counts. It is read before anything is made, because the names of all cgroups depend on it.

If the runtime is unavailable then, the agent starts with the configured driver, so that manifests are read all the
same, and retries until there is an answer. If that is another driver, the process ends: a running agent cannot switch
drivers, and the next process reads it before it starts.
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
    """The cgroup driver an agent starts with; ``assumed``: the runtime has not reported it yet."""

    name: str
    assumed: bool = False


async def ask_driver(runtime: Runtime, configured: str) -> Driver:
    """Return the runtime's driver; the ``configured`` one if it does not report any, or, assumed, does not answer in
    time."""
    reported = await _answer(runtime)
    if reported is None:
        log.warning("Cgroup driver: %s, as configured: the container runtime does not answer", configured)
        return Driver(configured, assumed=True)
    if reported not in ("", configured):
        log.info("Cgroup driver: %s, as the container runtime reports; cgroupDriver is %s", reported, configured)
    return Driver(reported or configured)


async def confirm_driver(runtime: Runtime, assumed: str) -> None:
    """Retry until the runtime answers. Raises StartFailed if it has another driver than was ``assumed``."""
    reported = None
    while reported is None:
        reported = await _answer(runtime)
    if reported not in ("", assumed):
        raise StartFailed(
            f"cgroup driver: the container runtime, which did not answer at the start, has {reported}, and this agent "
            f"began with {assumed}: start it again (containers run on), and set cgroupDriver to {reported}"
        )


async def _answer(runtime: Runtime) -> str | None:
    """Return the driver that the runtime reports, "" if it reports none; None if it does not answer in time."""
    with trio.move_on_after(ASK_SECONDS_MAX):
        async for _ in Every(ASK_PERIOD_SECONDS):
            try:
                return await runtime.cgroup_driver()
            except RuntimeCallError as error:
                log.debug("The container runtime does not report its cgroup driver yet: %s", error)
    return None
