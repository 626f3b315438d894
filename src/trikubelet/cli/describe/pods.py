"""The descriptions of pods, made of all the agent's data about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.cli import asking
from trikubelet.cli.describe.pod import describe_pod

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.cli.client import AgentClient
    from trikubelet.model.k8s import Pod


async def describe_pods(agent: AgentClient, pods: Iterable[Pod]) -> list[list[str]]:
    """Return the lines about each pod. Raises CommandFailed."""
    faults = await asking.faults(agent)
    events, work, problems = await asking.events(agent), await asking.work(agent), (await asking.node(agent)).problems
    manifests = {uid: one.source for one in await asking.manifests(agent) for uid in one.pods}
    described = []
    for pod in pods:
        meta = pod.metadata
        about = [event for event in events if event.involved_object.uid == meta.uid]
        wrong = [fault for fault in faults if f"{meta.namespace}/{meta.name}" in fault.running]
        source = manifests.get(meta.uid, "")
        described.append(describe_pod(pod, about, source, wrong, work.get(meta.uid), problems, asking.now_ns()))
    return described
