"""The data of the live view of ``top``, read from the agent: the node and its pods, and the text about one pod."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trikubelet.cli import asking
from trikubelet.cli.client import AgentSilent, NoAgent, NotAllowed
from trikubelet.cli.describe.pods import describe_pods
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.screen_state import View
from trikubelet.cli.status_page import FIGURES, Page
from trikubelet.cli.text_page import Text
from trikubelet.core.names import with_ephemeral

if TYPE_CHECKING:
    from trikubelet.cli.client import AgentClient

LOG_LINES: Final = 500
"""Lines at the end of a log that can be scrolled through."""
LOG_BYTES_MAX: Final = 256 * 1024
"""Bytes of the same: a line may be of any length."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a text: details of a pod or a log, where ``container`` counts the pod's containers cyclically."""

    view: View
    namespace: str
    name: str
    container: int


async def gather(agent: AgentClient) -> Page:
    """Return the page as it is now. Raises CommandFailed."""
    (node,) = await asking.nodes(agent)
    metrics = {}
    for line in (await agent.get("/metrics")).decode().splitlines():
        name, _, value = line.partition(" ")
        if name in FIGURES:
            metrics[name] = float(value)
    problems = (await asking.node(agent)).problems
    return Page(node, problems, await asking.pods(agent), await asking.used(agent), metrics, asking.now_ns())


async def read(agent: AgentClient, subject: Subject) -> Text:
    """Return the text as it is now. Raises CommandFailed if the agent does not answer; a missing pod or log is a
    text."""
    named = f"{subject.namespace}/{subject.name}"
    try:
        pod = await asking.pod_named(agent, subject.namespace, subject.name)
        if subject.view is View.POD:
            (lines,) = await describe_pods(agent, [pod])
            return Text(f"pod {named} · Esc: back, l: log", lines)
        first = asking.default_container(pod, quiet=True)
        names = [first, *(one.name for one in with_ephemeral(pod) if one.name != first)]
        at = subject.container % len(names)
        more = f", container {names[at]} ({at + 1} of {len(names)}, Tab: next)" if len(names) > 1 else ""
        return Text(f"log of {named}{more} · Esc: back, Enter: details", await _log(agent, named, names[at]))
    except (NoAgent, AgentSilent, NotAllowed):
        raise
    except CommandFailed as error:
        return Text(f"{named} · Esc: back", [str(error)])


async def _log(agent: AgentClient, named: str, container: str) -> list[str]:
    """Return the last lines of a container's log."""
    kept = b""
    async with agent.stream(f"/logs/{named}/{container}", {"tailLines": str(LOG_LINES)}) as parts:
        async for part in parts:
            kept = (kept + part)[-LOG_BYTES_MAX:]
    return kept.decode(errors="replace").splitlines() or ["(nothing was written)"]
