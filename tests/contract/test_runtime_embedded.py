"""The embedded runtime keeps the runtime contract: real processes, a real socket, the client any other runtime gets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from contract.runtime_suite import LogContract, RuntimeContract, Subject
from contract.streaming_suite import EchoContract, ProcessContract
from shell.embedded.embeddedkit import running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

TRAP = "trap 'exit 143' TERM; echo ready; while :; do sleep 0.05; done"


@pytest.fixture
def clock() -> None:
    """Real time: these are real processes."""


@pytest.fixture
async def subject(tmp_path: Path) -> AsyncIterator[Subject]:
    """A runtime of its own for each test."""
    async with running(tmp_path) as embedded:
        yield Subject(
            runtime=embedded.runtime,
            images=embedded.images,
            image="host",
            absent_image="nowhere.example/absent:1",
            stoppable=("sh", "-c", TRAP),
            stubborn=("sh", "-c", TRAP.replace("exit 143", "")),
            exits=lambda code: ("sh", "-c", f"exit {code}"),
            impossible=("/no/such/program",),
            log_directory=embedded.logs,
            resizes=False,
        )


class TestEmbeddedRuntime(RuntimeContract, LogContract, EchoContract, ProcessContract):
    """The whole contract."""
