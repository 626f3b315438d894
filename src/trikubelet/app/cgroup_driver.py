"""Which cgroup driver the node has: the container runtime's, for both make cgroups in the same trees.

A runtime that can say (``RuntimeConfig``) is believed, whatever the configuration has, as upstream does since 1.34; of
one that cannot the operator knows. It is asked before anything is made: the names of all cgroups hang on it.

Where it is away then, the agent begins with what the configuration has, so that what manifests say is seen all the
same, and asks until there is an answer. Is it another driver, the process ends: nothing of a life that began with one
can go over to the other, and the next life asks before it begins.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.kit.every import Every
from trikubelet.model.errors import StartFailed
from trikubelet.model.runtime_errors import RuntimeCallError

if TYPE_CHECKING:
    from trikubelet.ports import Runtime

log = logging.getLogger(__name__)

ASK_PERIOD_SECONDS: Final = 0.5
ASK_SECONDS_MAX: Final = 3.0
"""A runtime is often started beside its agent; one that is away for longer must not keep manifests from being read."""


@dataclass(frozen=True, slots=True)
class Driver:
    """The cgroup driver an agent begins with; ``assumed``: the runtime could not be asked about it yet."""

    name: str
    assumed: bool = False


async def ask_driver(runtime: Runtime, configured: str) -> Driver:
    """The runtime's driver; the ``configured`` one where it does not say, or, assumed, does not answer in time."""
    told = await _answer(runtime)
    if told is None:
        log.warning("Cgroup driver: %s, as configured: the container runtime does not answer", configured)
        return Driver(configured, assumed=True)
    if told not in ("", configured):
        log.info("Cgroup driver: %s, as the container runtime has it; cgroupDriver says %s", told, configured)
    return Driver(told or configured)


async def confirm_driver(runtime: Runtime, assumed: str) -> None:
    """Ask until the runtime answers. Raises StartFailed where it has another driver than was ``assumed``."""
    told = None
    while told is None:
        told = await _answer(runtime)
    if told not in ("", assumed):
        raise StartFailed(
            f"cgroup driver: the container runtime, which did not answer at the start, has {told}, and this agent "
            f"began with {assumed}: start it again (containers run on), and set cgroupDriver to {told}"
        )


async def _answer(runtime: Runtime) -> str | None:
    """What the runtime says, nothing where it cannot say; None where it does not answer in time."""
    with trio.move_on_after(ASK_SECONDS_MAX):
        async for _ in Every(ASK_PERIOD_SECONDS):
            try:
                return await runtime.cgroup_driver()
            except RuntimeCallError as error:
                log.debug("Container runtime does not say its cgroup driver yet: %s", error)
    return None
