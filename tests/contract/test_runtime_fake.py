"""The fake runtime keeps the runtime contract, over its server and the client any other runtime gets, on virtual time.

Its containers are no programs: they write no logs of their own, and no command can be run in them.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from contract.runtime_suite import AwayContract, RuntimeContract, Subject
from contract.streaming_suite import EchoContract
from shell.cri.grpckit import MemoryNetwork, running
from trikubelet.cri.channel import Channel, State
from trikubelet.cri.runtime import CriImages, CriRuntime
from trikubelet.fake.runtime import Plan, run_fake
from trikubelet.model.runtime import ExecResult

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from trio.testing import MockClock

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

IMAGE = "registry.example/busybox:1"


@pytest.fixture
def clock(autojump_clock: MockClock) -> MockClock:
    """Virtual time."""
    return autojump_clock


@pytest.fixture
async def subject(clock: MockClock) -> AsyncIterator[Subject]:
    """A runtime of its own for each test."""
    network = MemoryNetwork()
    async with trio.open_nursery() as nursery:
        await nursery.start(run_fake, Plan(), network)
        async with running(Channel("memory", connector=network.connect)) as channel:
            images = CriImages(channel)
            await images.pull_image(IMAGE)

            @asynccontextmanager
            async def away() -> AsyncGenerator[None, None]:
                network.up = False
                for end in network.server_ends:
                    await trio.aclose_forcefully(end)
                while channel.statistics().state is State.CONNECTED:
                    await trio.lowlevel.checkpoint()
                yield
                network.up = True

            yield Subject(
                runtime=CriRuntime(channel),
                images=images,
                image=IMAGE,
                absent_image="registry.invalid/absent:1",
                stoppable=("run",),
                stubborn=("stubborn",),
                exits=lambda code: ("exit", str(code)),
                impossible=("unstartable",),
                away=away,
            )
        nursery.cancel_scope.cancel()


class TestFakeRuntime(RuntimeContract, AwayContract):
    """The whole contract but logs and what commands say."""

    async def test_a_command_runs_in_a_container(self, subject: Subject, clock: object) -> None:
        """It only seems to: it succeeds and says nothing."""
        container_id = await subject.started(subject.stoppable)

        assert ExecResult(0) == await subject.runtime.exec_sync(container_id, ["false"], 20)


class TestFakeStreams(EchoContract):
    """What is streamed goes over real sockets, so time is real."""

    @pytest.fixture
    def clock(self) -> None:
        """Real time."""
