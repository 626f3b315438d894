"""The services' nursery: it opens whenever a cancellation comes, and the agent that starts goes down in any step."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.app import compose
from trikubelet.app.flags import parse_agent_flags
from trikubelet.app.services import open_services
from trikubelet.app.settings import Surroundings, load_settings
from trikubelet.cri.channel import open_channel
from trikubelet.cri.server import serve
from trikubelet.embedded import run_embedded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from trio.testing import MockClock

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within


async def _services(_place: Path) -> None:
    async with open_services():
        await trio.sleep_forever()


async def _channel(place: Path) -> None:
    async with open_channel(f"unix://{place}/nobody.sock"):
        await trio.sleep_forever()


async def _server(place: Path) -> None:
    await serve([], f"{place}/server.sock")


@pytest.mark.parametrize("run", [_services, _channel, _server])
async def test_what_outlives_a_cancellation_ends_within_a_cancelled_scope(
    run: Callable[[Path], Awaitable[None]], place: Path, autojump_clock: MockClock
) -> None:
    with trio.fail_after(60), trio.CancelScope() as scope:
        scope.cancel()
        await run(place)


class _CancelAfter(trio.abc.Instrument):
    """Cancels a scope after so many steps of tasks."""

    def __init__(self, steps: int, scope: trio.CancelScope) -> None:
        self._left = steps
        self._scope = scope

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._left -= 1
        if self._left == 0:
            self._scope.cancel()


async def _has_started(steps: int, start: Callable[[trio.Nursery], Awaitable[object]]) -> bool:
    """Start something that is cancelled after so many steps, and wait for its end; whether it had started before."""
    has_started = False
    with trio.fail_after(60), trio.CancelScope() as scope:
        instrument = _CancelAfter(steps, scope)
        trio.lowlevel.add_instrument(instrument)
        try:
            async with trio.open_nursery() as nursery:
                await start(nursery)
                has_started = not scope.cancel_called
                scope.cancel()
        finally:
            trio.lowlevel.remove_instrument(instrument)
    return has_started


@pytest.mark.slow
async def test_an_agent_ends_in_whichever_step_of_its_start_it_is_cancelled(place: Path) -> None:
    (place / "manifests").mkdir()
    flags = ["--standalone", "--container-runtime-endpoint=fake:", f"--pod-manifest-path={place / 'manifests'}"]
    flags += [f"--root-dir={place / 'root'}", "--hostname-override=node", "--healthz-port=0"]
    settings = load_settings(parse_agent_flags(flags), Surroundings(0, {}, "node"))
    for steps in count(1):
        if await _has_started(steps, lambda nursery: nursery.start(compose.run, settings, lambda: None, None)):
            break


@pytest.mark.slow
async def test_an_embedded_runtime_ends_in_whichever_step_of_its_start_it_is_cancelled(place: Path) -> None:
    for steps in count(1):
        if await _has_started(steps, lambda nursery: nursery.start(run_embedded, f"{place}/cri.sock", place / "s")):
            break
