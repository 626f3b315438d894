"""One contract for who shuts a machine down (``ports.ShutdownManager``): kept by the memory, and by a real
systemd-logind on a real bus in the live tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest
import trio

if TYPE_CHECKING:
    from collections.abc import Collection

    from trikubelet.ports import ShutdownManager

WAIT_SECONDS_MAX = 60


class Machine(Protocol):
    """One that can be shut down."""

    manager: ShutdownManager

    async def shut_down(self) -> None:
        """As an operator does; returns when that was taken note of."""
        ...

    async def call_off(self) -> None:
        """The shutdown does not happen after all. No delay may be left."""
        ...

    async def delays(self) -> Collection[object]:
        """Those that are asked for at this moment."""
        ...


class ShutdownContract:
    """For a fixture ``machine``."""

    async def test_a_delay_is_there_from_when_it_is_asked_for_until_it_is_ended(self, machine: Machine) -> None:
        async with machine.manager.connect() as session:
            assert not await machine.delays()
            end = await session.inhibit()
            assert 1 == len(await machine.delays())
            end()
            await none_left(machine)

    async def test_a_delay_outlives_its_session(self, machine: Machine) -> None:
        async with machine.manager.connect() as session:
            end = await session.inhibit()
        assert 1 == len(await machine.delays())
        end()
        await none_left(machine)

    async def test_a_shutdown_is_announced_and_so_is_that_it_does_not_happen(self, machine: Machine) -> None:
        async with machine.manager.connect() as session:
            assert not await session.is_shutting_down()
            end = await session.inhibit()
            await machine.shut_down()
            with trio.fail_after(WAIT_SECONDS_MAX):
                assert await session.next()
            assert await session.is_shutting_down()
            end()
            await machine.call_off()
            with trio.fail_after(WAIT_SECONDS_MAX):
                assert not await session.next()
            assert not await session.is_shutting_down()

    async def test_later_session_finds_the_shutdown_and_cannot_delay_it(self, machine: Machine) -> None:
        async with machine.manager.connect() as session:
            end = await session.inhibit()
            await machine.shut_down()
            async with machine.manager.connect() as later:
                assert await later.is_shutting_down()
                with pytest.raises(OSError):  # noqa: PT011 - each says it in words of its own
                    await later.inhibit()
            end()
            await machine.call_off()

    async def test_the_longest_delay_can_be_raised(self, machine: Machine) -> None:
        async with machine.manager.connect() as session:
            assert 5 == await session.delay_seconds()
            await session.allow_delay(47)
            assert 47 == await session.delay_seconds()


async def none_left(machine: Machine) -> None:
    """Wait until no delay is asked for: who ends one is not told when that was noticed."""
    with trio.fail_after(WAIT_SECONDS_MAX):
        while await machine.delays():  # noqa: ASYNC110 - another process is looked at
            await trio.sleep(0.02)
