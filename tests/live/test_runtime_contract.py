"""Both containerds and CRI-O keep the runtime contract that the memory runtime and the embedded one are held to.

When this fails and the others do not, the contract says something of the fakes only. The client is the product's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from contract.runtime_suite import LogContract, RuntimeContract, Subject
from contract.streaming_suite import EchoContract, ProcessContract
from live.kit.daemon import Daemon
from trikubelet.cri.channel import open_channel
from trikubelet.cri.runtime import CriImages, CriRuntime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.slow

TRAP = "trap 'exit 143' TERM; echo ready; while :; do sleep 0.05; done"


@pytest.fixture
def clock() -> None:
    """Real time: these are real containers."""


@pytest.fixture(params=["containerd1", "containerd2", "crio"])
def daemon(request: pytest.FixtureRequest) -> Daemon:
    """Each of the three in turn, without pods."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Daemon)
    return found


@pytest.fixture
async def subject(daemon: Daemon, tmp_path: Path) -> AsyncIterator[Subject]:
    """A runtime, and a client of it."""
    async with open_channel(daemon.endpoint) as channel:
        yield Subject(
            runtime=CriRuntime(channel),
            images=CriImages(channel),
            image="docker.io/library/busybox:1.36",
            absent_image="127.0.0.1:9/absent:1",
            stoppable=("sh", "-c", TRAP),
            stubborn=("sh", "-c", TRAP.replace("exit 143", "")),
            exits=lambda code: ("sh", "-c", f"exit {code}"),
            impossible=("/no/such/program",),
            log_directory=tmp_path,
            cgroup_parent=f"{daemon.cgroup_parent}/contract",
        )


class TestRuntimes(RuntimeContract, LogContract, EchoContract, ProcessContract):
    """The whole contract."""
