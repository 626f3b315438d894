"""A machine goes down, by a real systemd-logind: its pods end before it, in order, and it waits for them."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import trio
from jeepney import DBusAddress, HeaderFields, new_signal
from jeepney.io.blocking import open_dbus_connection

from contract.shutdown_suite import Machine, ShutdownContract
from live.kit import places
from live.kit.agent import Agent
from live.kit.cluster_agent import NODES, PODS, ClusterAgent
from live.kit.daemon import await_that
from live.kit.logind import Logind as LogindProcess
from live.kit.manifests import container, pod, shell, state
from live.kit.watched import is_ready
from trikubelet.host.logind import Logind, LogindSession
from trikubelet.kit.threads import ThreadPool

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from live.kit.containerd import Containerd
    from live.kit.control_plane import ControlPlane

pytestmark = pytest.mark.slow

WAIT_SECONDS_MAX = 60
CRITICAL = 2_000_000_000
SAID = ("Terminated", "Pod was terminated in response to imminent node shutdown.")


@pytest.fixture
def logind(swept_machine: None) -> Iterator[LogindProcess]:
    try:
        made = LogindProcess()
    except places.NotInstalled as missing:
        pytest.fail(str(missing), pytrace=False)
    with made:
        yield made


@pytest.fixture
def node_machine(logind: LogindProcess, containerd2: Containerd, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Agents beside containerd are on a machine that this systemd-logind shuts down: by its bus, and by its settings,
    which they write to /etc."""
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", logind.address)
    place = "/etc/systemd"
    beside = f"mount -t tmpfs tmpfs {place}; mkdir {place}/logind.conf.d; mount --bind $0 {place}/logind.conf.d"
    subprocess.run(containerd2.inside(["sh", "-ec", beside, str(logind.settings)]), check=True)
    yield
    subprocess.run(containerd2.inside(["umount", "--recursive", place]), check=True)


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
    """The whole contract, and that of a bus on which others are, too."""

    async def test_tests_never_shut_the_machine_down(self, machine: Machine, logind: LogindProcess) -> None:
        async with machine.manager.connect() as session:
            assert isinstance(session, LogindSession)
            with open_dbus_connection(logind.address) as other:
                to = DBusAddress("/org/freedesktop/login1", interface="org.freedesktop.login1.Manager")
                forged = new_signal(to, "PrepareForShutdown", "b", (True,))
                forged.header.fields[HeaderFields.destination] = session.name
                other.send(forged)
            with trio.move_on_after(2) as heard:
                await session.next()
            assert heard.cancelled_caught
            assert not await session.is_shutting_down()


def found(object_: dict[str, Any], type_: str) -> dict[str, Any]:
    """The object's condition of that type."""
    return next(one for one in object_["status"]["conditions"] if one["type"] == type_)


PERIODS = {"shutdownGracePeriod": "20s", "shutdownGracePeriodCriticalPods": "10s"}
GROUPS = {
    "shutdownGracePeriodByPodPriority": [
        {"priority": CRITICAL, "shutdownGracePeriodSeconds": 10},
        {"priority": 0, "shutdownGracePeriodSeconds": 10},
    ]
}


@pytest.mark.parametrize("settings", [PERIODS, GROUPS], ids=["by periods", "by priorities"])
def test_pods_end_in_order_before_the_machine_does(
    settings: dict[str, object], containerd2: Containerd, logind: LogindProcess, node_machine: None
) -> None:
    # The first takes so long to end that the other would be over long before, did it not wait.
    usual = pod("usual", shell("main", "trap 'sleep 3; exit 0' TERM; while :; do sleep 0.1; done"))
    usual["spec"]["terminationGracePeriodSeconds"] = 60
    vital = pod("vital", container("main", "serve", "8080"), priority=CRITICAL)
    with Agent(containerd2, **settings) as agent:
        for one in (usual, vital):
            agent.put(one)
            agent.wait_phase(one["metadata"]["name"], "Running")
        await_that(lambda: logind.delays() == ["kubelet"], WAIT_SECONDS_MAX, agent.story)
        assert "InhibitDelayMaxSec=20" in (logind.settings / "99-kubelet.conf").read_text()
        logind.shut_down()
        await_that(lambda: not logind.delays(), WAIT_SECONDS_MAX, agent.story)

        ended = [agent.wait_phase(name, "Failed")["status"] for name in ("usual", "vital")]
        assert [SAID] * 2 == [(one["reason"], one["message"]) for one in ended]
        (first,), (second,) = (one["containerStatuses"] for one in ended)
        assert first["state"]["terminated"]["finishedAt"] <= second["state"]["terminated"]["finishedAt"]
        assert not containerd2.tasks()
        assert (agent.root / "graceful_node_shutdown_state").exists()


DRAINS = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
FAILS = "trap 'exit 3' TERM; while :; do sleep 0.1; done"


def test_after_a_shutdown_and_a_boot_pods_continue_from_how_they_ended(
    containerd2: Containerd, logind: LogindProcess, node_machine: None
) -> None:
    static = {
        "always": pod("always", shell("main", DRAINS)),
        "failed": pod("failed", shell("main", FAILS), restartPolicy="OnFailure"),
        "drained": pod("drained", shell("main", DRAINS), restartPolicy="OnFailure"),
        "once": pod("once", shell("main", DRAINS), restartPolicy="Never"),
    }
    with Agent(containerd2, **PERIODS) as agent:
        for name, one in static.items():
            agent.put(one)
            agent.wait_phase(name, "Running")
        await_that(lambda: logind.delays() == ["kubelet"], WAIT_SECONDS_MAX, agent.story)
        logind.shut_down()
        await_that(lambda: not logind.delays(), WAIT_SECONDS_MAX, agent.story)
        logind.call_off()
        # A pod that begins now runs after what a removal of the ended pods' containers would have taken.
        agent.put(pod("later", container("main", "serve", "8080")))
        agent.wait_phase("later", "Running")
        agent.take("later")
        agent.wait_gone("later")
        agent.kill()
        containerd2.restart()
        agent.start()

        phases = {"always": "Running", "failed": "Running", "drained": "Succeeded", "once": "Succeeded"}
        pods = {name: agent.wait_phase(name, phase) for name, phase in phases.items()}
        shown = {name: state(pods[name], "main") for name in static}
        assert {"always": 1, "failed": 1, "drained": 0, "once": 0} == {
            name: one["restartCount"] for name, one in shown.items()
        }
        assert {"always": 0, "failed": 3} == {
            name: shown[name]["lastState"]["terminated"]["exitCode"] for name in ("always", "failed")
        }
        assert {"drained": 0, "once": 0} == {
            name: shown[name]["state"]["terminated"]["exitCode"] for name in ("drained", "once")
        }


def test_the_cluster_sees_a_node_that_goes_down_and_comes_back(
    containerd2: Containerd, control_plane: ControlPlane, logind: LogindProcess, node_machine: None
) -> None:
    with ClusterAgent(containerd2, control_plane, **PERIODS) as member, member.watch(NODES) as nodes:
        nodes.wait(lambda now: any(map(is_ready, now.values())), "it is Ready", WAIT_SECONDS_MAX, member.story)
        await_that(lambda: logind.delays() == ["kubelet"], WAIT_SECONDS_MAX, member.story)
        with member.watch(PODS) as pods:
            bound = pod("web", container("main", "serve", "8080"), nodeName=member.name)
            control_plane.kubectl("create", "-f-", manifests=bound)
            pods.wait(lambda now: is_ready(now.get("web", {})), "it runs", WAIT_SECONDS_MAX, member.story)
            logind.shut_down()
            down = nodes.wait(
                lambda now: not any(map(is_ready, now.values())), "it is not Ready", WAIT_SECONDS_MAX, member.story
            )
            ready = found(down[member.name], "Ready")
            assert ("KubeletNotReady", "node is shutting down") == (ready["reason"], ready["message"])
            over = pods.wait(
                lambda now: now["web"]["status"]["phase"] == "Failed", "it failed", WAIT_SECONDS_MAX, member.story
            )
        assert SAID == (over["web"]["status"]["reason"], over["web"]["status"]["message"])
        assert "TerminationByKubelet" == found(over["web"], "DisruptionTarget")["reason"]
        await_that(lambda: not logind.delays(), WAIT_SECONDS_MAX, member.story)
        measured = member.measured()
        assert 0 < measured["kubelet_graceful_shutdown_start_time_seconds"]
        assert 0 < measured["kubelet_graceful_shutdown_end_time_seconds"]
        logind.call_off()
        nodes.wait(lambda now: any(map(is_ready, now.values())), "it is Ready", WAIT_SECONDS_MAX, member.story)
        await_that(lambda: logind.delays() == ["kubelet"], WAIT_SECONDS_MAX, member.story)
