"""A machine goes down, by a real systemd-logind: its pods end before it, in order, and it waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from contract.shutdown_suite import Machine, ShutdownContract
from live.kit import places
from live.kit.agent import Agent
from live.kit.daemon import await_that
from live.kit.logind import Logind as LogindProcess
from live.kit.manifests import container, pod
from trikubelet.host.logind import Logind
from trikubelet.kit.threads import ThreadPool

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from live.kit.containerd import Containerd

pytestmark = pytest.mark.slow

WAIT_SECONDS_MAX = 60


@pytest.fixture
def logind(swept_machine: None) -> Iterator[LogindProcess]:
    try:
        made = LogindProcess()
    except places.NotInstalled as missing:
        pytest.fail(str(missing), pytrace=False)
    with made:
        yield made


class RealMachine:
    """One that would go down."""

    def __init__(self, logind: LogindProcess) -> None:
        self._logind = logind
        settings = logind.settings / "99-kubelet.conf"
        self.manager = Logind(ThreadPool("settings", 1), logind.address, settings)

    async def shut_down(self) -> None:
        await trio.to_thread.run_sync(self._logind.shut_down)

    async def call_off(self) -> None:
        self._logind.call_off()

    async def delays(self) -> Collection[object]:
        return await trio.to_thread.run_sync(self._logind.delays)


@pytest.fixture
def machine(logind: LogindProcess) -> Machine:
    """On real time."""
    return RealMachine(logind)


class TestRealShutdown(ShutdownContract):
    """The whole contract."""


def test_pods_end_in_order_before_the_machine_does(
    containerd2: Containerd, logind: LogindProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", logind.address)
    usual, vital = (pod(name, container("main", "serve", "8080")) for name in ("usual", "vital"))
    vital["spec"]["priority"] = 2_000_000_000
    periods = {"shutdownGracePeriod": "5s", "shutdownGracePeriodCriticalPods": "2s"}
    with Agent(containerd2, **periods) as agent:
        for one in (usual, vital):
            agent.put(one)
            agent.wait_phase(one["metadata"]["name"], "Running")
        await_that(lambda: logind.delays() == ["kubelet"], WAIT_SECONDS_MAX, agent.story)
        logind.shut_down()
        await_that(lambda: not logind.delays(), WAIT_SECONDS_MAX, agent.story)

        ended = [agent.wait_phase(name, "Failed")["status"] for name in ("usual", "vital")]
        assert [("Terminated", "Pod was terminated in response to imminent node shutdown.")] * 2 == [
            (one["reason"], one["message"]) for one in ended
        ]
        first, second = (one["containerStatuses"][0]["state"]["terminated"]["finishedAt"] for one in ended)
        assert first <= second
        assert not containerd2.tasks()
        assert (agent.root / "graceful_node_shutdown_state").exists()
