"""The memory runtime keeps the runtime contract, on virtual time. Its containers are not programs and write no logs."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from trio.testing import MockClock

from contract.runtime_suite import AwayContract, RuntimeContract, Subject
from trikubelet.testing.memory_images import MemoryImages
from trikubelet.testing.memory_runtime import MemoryRuntime
from trikubelet.testing.world import World

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


@pytest.fixture
def clock(autojump_clock: MockClock) -> MockClock:
    """Virtual time."""
    return autojump_clock


@pytest.fixture
def subject() -> Subject:
    """A world of its own for each test."""
    runtime = MemoryRuntime(World())

    @asynccontextmanager
    async def away() -> AsyncGenerator[None, None]:
        with runtime.caller.away():
            yield

    return Subject(
        runtime=runtime,
        images=MemoryImages(present=["busybox:1"]),
        image="busybox:1",
        absent_image="nowhere.example/absent:1",
        stoppable=("run",),
        stubborn=("stubborn",),
        exits=lambda code: ("exit", str(code), "0"),
        impossible=("unstartable",),
        away=away,
    )


class TestMemoryRuntime(RuntimeContract, AwayContract):
    """The whole contract but the logs."""
