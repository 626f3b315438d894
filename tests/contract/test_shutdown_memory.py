"""Who shuts a machine in memory down keeps the contract of who does it to a real one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from contract.shutdown_suite import Machine, ShutdownContract
from trikubelet.testing.memory_shutdown import MemoryShutdownManager

if TYPE_CHECKING:
    from collections.abc import Collection

    from trio.testing import MockClock


class MemoryMachine:
    """Owns one in memory."""

    def __init__(self) -> None:
        self.manager = MemoryShutdownManager()

    async def shut_down(self) -> None:
        self.manager.announce(True)

    async def call_off(self) -> None:
        self.manager.announce(False)

    async def delays(self) -> Collection[object]:
        return self.manager.delays


@pytest.fixture
def machine(autojump_clock: MockClock) -> Machine:
    """On virtual time."""
    return MemoryMachine()


class TestMemoryShutdown(ShutdownContract):
    """The whole contract."""
