"""A manifest that keeps its pod's UID and asks for other amounts after its agent has gone: the next one has its
containers resized by real containerds, and what the kernel then holds them to. (Where an agent lives, such a manifest
is a fault.) Through an API server: ``test_cluster_resizes.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from live.kit.agent import Agent
from live.kit.kernel import limits
from live.kit.manifests import container, pod, state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from live.kit.containerd import Containerd

pytestmark = pytest.mark.slow

UID = "b8f3c1de-0000-4000-8000-00000000cafe"
ANEW = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]


@pytest.fixture
def agent(containerd: Containerd) -> Iterator[Agent]:
    with Agent(containerd) as agent:
        yield agent


def amounts(cpu: str, memory: str) -> dict[str, dict[str, str]]:
    """Requests and limits alike."""
    return {kind: {"cpu": cpu, "memory": memory} for kind in ("requests", "limits")}


SMALL, LARGE = amounts("100m", "64Mi"), amounts("200m", "128Mi")


def web(kept: dict[str, Any], made: dict[str, Any]) -> dict[str, Any]:
    """A pod of one container that is changed as it runs, and one that is recreated for its memory."""
    found = pod(
        "web",
        container("kept", "serve", "8080", resources=kept),
        container("made", "serve", "8081", resources=made, resizePolicy=ANEW),
    )
    return found | {"metadata": found["metadata"] | {"uid": UID}}


def edit(agent: Agent, kept: dict[str, Any], made: dict[str, Any]) -> None:
    """The manifest asks for other amounts while no agent lives."""
    agent.kill()
    agent.put(web(kept, made))
    agent.start()


def conditions(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["type"]: one for one in found["status"].get("conditions", ()) if one["type"].startswith("PodResize")}


def has(agent: Agent, kept: dict[str, Any], made: dict[str, Any]) -> dict[str, Any]:
    """The pod once its containers run with these resources and nothing of a resize is told."""

    def look(pods: dict[str, Any]) -> bool:
        found = pods.get("web", {"status": {}})
        told = [state(found, name) for name in ("kept", "made")]
        runs = all("running" in one.get("state", {}) for one in told)
        return runs and not conditions(found) and [one.get("resources") for one in told] == [kept, made]

    return agent.wait(look, "it has its amounts")["web"]


def id_of(found: dict[str, Any], name: str) -> str:
    return str(state(found, name)["containerID"].partition("://")[2])


def test_containers_are_changed_or_recreated_and_the_next_agent_knows_what_they_have(agent: Agent) -> None:
    agent.put(web(SMALL, SMALL))
    before = has(agent, SMALL, SMALL)
    assert [(200, 128), (100, 64)] == [limits(agent.containerd, part) for part in (f"pod{UID}", id_of(before, "kept"))]
    edit(agent, LARGE, LARGE)
    grown = has(agent, LARGE, LARGE)
    assert [(400, 256), (200, 128), (200, 128)] == [
        limits(agent.containerd, part) for part in (f"pod{UID}", id_of(grown, "kept"), id_of(grown, "made"))
    ]
    assert [(True, 0), (False, 1)] == [
        (id_of(before, name) == id_of(grown, name), state(grown, name)["restartCount"]) for name in ("kept", "made")
    ]
    edit(agent, SMALL, LARGE)
    shrunk = has(agent, SMALL, LARGE)

    assert [(300, 192), (100, 64)] == [limits(agent.containerd, part) for part in (f"pod{UID}", id_of(shrunk, "kept"))]
    assert [id_of(grown, name) for name in ("kept", "made")] == [id_of(shrunk, name) for name in ("kept", "made")]


def test_less_memory_than_is_used_is_refused_and_said(agent: Agent) -> None:
    agent.put(web(SMALL, SMALL))
    before = has(agent, SMALL, SMALL)
    edit(agent, amounts("100m", "100Ki"), SMALL)

    def refused(pods: dict[str, Any]) -> bool:
        told = conditions(pods.get("web", {"status": {}})).get("PodResizeInProgress", {})
        return told.get("reason") == "Error" and "memory limit (102400) below current usage" in told["message"]

    agent.wait(refused, "it is refused")
    assert (100, 64) == limits(agent.containerd, id_of(before, "kept"))
    edit(agent, SMALL, SMALL)

    assert id_of(before, "kept") == id_of(has(agent, SMALL, SMALL), "kept")
