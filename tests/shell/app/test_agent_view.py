"""What the agent tells of its node without a cluster (app/agent_view.py)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import trio

from core.test_node_status import report
from trikubelet.app.agent_view import AgentNotes
from trikubelet.core.node_status import Identity
from trikubelet.model.kubelet_configuration import KubeletConfiguration
from trikubelet.pods.node_object import NodeObject
from trikubelet.testing.memory_host import VirtualClock

if TYPE_CHECKING:
    from trikubelet.core.node_status import NodeReport


async def test_the_node_stays_the_same_object_until_more_than_the_heartbeat_is_new(autojump_clock) -> None:
    problems: list[str] = []

    async def told() -> NodeReport:
        return report(problems=tuple(problems))

    settings: Any = SimpleNamespace(configuration=KubeletConfiguration(node_status_report_frequency=300.0))
    node: Any = SimpleNamespace(node_object=NodeObject())
    nothing: Any = SimpleNamespace()
    notes = AgentNotes(settings, Identity("w1", "w1", "amd64"), told, node, nothing, nothing, VirtualClock())

    first = await notes.node()
    await trio.sleep(299)
    assert first is await notes.node()
    await trio.sleep(1)
    later = await notes.node()  # the heartbeat, for who wants to see that it is alive
    assert later != first
    problems.append("the disk is full")
    assert later != await notes.node()
