"""``trikubelet describe KIND [NAME…]``: everything about an object that helps to explain its state.

The layout is kubectl's. It adds data that only the node has. For a pod: faults of its manifest (then the pod still has
the last valid version), syncs that fail or take long, and the node's problems. For the node: its problems. A name
without an exact match may be the beginning of several. Names and selectors are those of ``get``.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from trikubelet.cli import asking, blocking
from trikubelet.cli.client import AgentClient
from trikubelet.cli.describe.event import describe_event
from trikubelet.cli.describe.image import describe_image
from trikubelet.cli.describe.manifest_object import describe_object
from trikubelet.cli.describe.node import describe_node
from trikubelet.cli.describe.pods import describe_pods
from trikubelet.cli.describe.volume import describe_pod_volume
from trikubelet.cli.kinds import PODS
from trikubelet.cli.things import read_things
from trikubelet.cli.words.describe import parser

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from trikubelet.cli.kinds import Listed
    from trikubelet.cli.things import Wanted

    Described = Callable[[AgentClient, Sequence[Listed]], Awaitable[list[list[str]]]]
    """Returns the lines about each selected object."""


def run(argv: Sequence[str]) -> int:
    """Run ``describe`` and return the exit code. Raises CommandFailed."""
    args = parser().parse_intermixed_args(argv)
    blocking.run(_describe, args, read_things(args))
    return 0


async def _describe(args: argparse.Namespace, wanted: Sequence[Wanted]) -> None:
    agent = asking.agent_of(args)
    described: list[list[str]] = []
    for one in wanted:
        chosen = await _chosen(agent, one, await one.kind.ask(agent))
        described += await _DESCRIBED[one.kind.name](agent, chosen)
    for number, lines in enumerate(described):
        if number:
            print("\n")
        print("\n".join(lines))
    if not described:
        everywhere = args.all_namespaces or not all(one.kind.namespaced for one in wanted)
        print(asking.nothing_found("" if everywhere else args.namespace), file=sys.stderr)


async def _chosen(agent: AgentClient, wanted: Wanted, everything: Sequence[Listed]) -> list[Listed]:
    """Return the selected objects, each once. Raises CommandFailed for a missing name."""
    here = [one for one in everything if wanted.fits(one)]
    chosen = [] if wanted.names else here
    for name in wanted.names:
        found = wanted.named(name, here) or [one for one in here if one.name.startswith(name)]
        if not found:
            missing = wanted.missing(name, everything)
            # A missing pod may be one whose manifest cannot be read: then the faults are the answer.
            raise await asking.with_faults(agent, missing) if wanted.kind is PODS else missing
        chosen += found
    return [one for place, one in enumerate(chosen) if all(one.whole is not other.whole for other in chosen[:place])]


async def _pods(agent: AgentClient, chosen: Sequence[Listed]) -> list[list[str]]:
    return await describe_pods(agent, [one.whole for one in chosen])


async def _nodes(agent: AgentClient, chosen: Sequence[Listed]) -> list[list[str]]:
    pods, problems = await asking.pods(agent), (await asking.node(agent)).problems
    events = [event for event in await asking.events(agent) if event.involved_object.kind == "Node"]
    return [describe_node(one.whole, pods, events, problems, asking.now_ns()) for one in chosen]


async def _events(_: AgentClient, chosen: Sequence[Listed]) -> list[list[str]]:
    return [describe_event(one.whole) for one in chosen]


async def _images(agent: AgentClient, chosen: Sequence[Listed]) -> list[list[str]]:
    pods = await asking.pods(agent)
    return [describe_image(one.whole, pods) for one in chosen]


async def _volumes(agent: AgentClient, chosen: Sequence[Listed]) -> list[list[str]]:
    pods = {(pod.metadata.namespace, pod.metadata.name): pod for pod in await asking.pods(agent)}
    described = []
    for one in chosen:
        pod = pods.get((one.namespace, one.whole["pod"]))
        volumes = pod.spec.volumes if pod is not None else ()
        described += [
            describe_pod_volume(pod, volume, one.whole["state"])
            for volume in volumes
            if pod is not None and volume.name == one.whole["spec"]["name"]
        ]
    return described


async def _objects(_: AgentClient, chosen: Sequence[Listed]) -> list[list[str]]:
    return [describe_object(one.whole) for one in chosen]


_DESCRIBED: Final[Mapping[str, Described]] = {
    "pod": _pods,
    "node": _nodes,
    "event": _events,
    "image": _images,
    "volume": _volumes,
    "configmap": _objects,
    "secret": _objects,
}
