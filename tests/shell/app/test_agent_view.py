"""What the agent tells of its node without a cluster (app/agent_view.py)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import trio

from core.test_node_status import report
from shell.localkit import FakeView
from trikubelet.app import agent_view
from trikubelet.app.agent_view import AgentNotes
from trikubelet.core.node_status import Identity
from trikubelet.core.timestamps import rfc3339
from trikubelet.model.finding import Finding, good
from trikubelet.model.kubelet_configuration import KubeletConfiguration
from trikubelet.pods.node_object import NodeObject
from trikubelet.server.node_view import ManifestFault
from trikubelet.testing.memory_host import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trio.testing import MockClock

    from trikubelet.core.node_status import NodeReport


def notes_of(told: Callable[[], Awaitable[NodeReport]], *, standalone: bool = True) -> AgentNotes:
    configuration = KubeletConfiguration(node_status_report_frequency=300.0)
    settings: Any = SimpleNamespace(configuration=configuration, standalone=standalone)
    node: Any = SimpleNamespace(node_object=NodeObject())
    nothing: Any = SimpleNamespace()
    return AgentNotes(settings, Identity("w1", "w1", "amd64"), told, node, nothing, nothing, VirtualClock())


async def well() -> NodeReport:
    await trio.lowlevel.checkpoint()
    return report()


async def test_a_node_of_no_cluster_is_as_old_as_its_agent(autojump_clock: MockClock) -> None:
    notes = notes_of(well)
    begun = rfc3339(VirtualClock().now_ns())
    await trio.sleep(50)
    first = await notes.node()
    await trio.sleep(300)
    later = await notes.node()

    assert later != first
    assert [begun, begun] == [first.metadata.creation_timestamp, later.metadata.creation_timestamp]


async def test_node_has_no_age_before_its_cluster_has_answered(autojump_clock: MockClock) -> None:
    assert "" == (await notes_of(well, standalone=False).node()).metadata.creation_timestamp


async def test_the_node_stays_the_same_object_until_more_than_the_heartbeat_is_new(autojump_clock: MockClock) -> None:
    problems: list[str] = []

    async def told() -> NodeReport:
        return report(problems=tuple(problems))

    notes = notes_of(told)
    first = await notes.node()
    await trio.sleep(299)
    assert first is await notes.node()
    await trio.sleep(1)
    later = await notes.node()  # the heartbeat, for who wants to see that it is alive
    assert later != first
    problems.append("the disk is full")
    assert later != await notes.node()


async def test_the_doctor_of_an_agent_reports_the_faults_of_its_manifests(monkeypatch: pytest.MonkeyPatch) -> None:
    async def examine(_: object, *, running: bool) -> list[Finding]:
        await trio.lowlevel.checkpoint()
        return [good("swap", "none")]

    async def found(path: str | None, url: str, *faults: ManifestFault) -> list[tuple[str, str]]:
        settings: Any = SimpleNamespace(manifest_path=path, manifest_url=url)
        nothing: Any = SimpleNamespace()
        view: Any = FakeView(wrong=list(faults))
        notes = AgentNotes(settings, nothing, well, nothing, view, nothing, VirtualClock())
        return [(one.severity.value, one.found) for one in await notes.examined()]

    monkeypatch.setattr(agent_view, "examine", examine)
    fault = ManifestFault("/m/web.yaml", "unknown field", 4, "spec.x", running=("default/web-n1",))

    swap = ("ok", "none")
    assert [swap, ("ok", "no faults in /m")] == await found("/m", "")
    assert [swap, ("ok", "no faults in http://m")] == await found(None, "http://m")
    assert [swap] == await found(None, "")
    wrong = "/m/web.yaml:4: spec.x: unknown field [default/web-n1: the last good version keeps running]"
    assert [swap, ("error", wrong)] == await found("/m", "", fault)
