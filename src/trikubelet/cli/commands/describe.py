"""``trikubelet describe KIND [NAME…]``: everything about a thing that helps to see why it is as it is.

kubectl's layout, and what only the node knows: of a pod the faults of its manifest, for then what runs is not what the
file says, syncs of the agent that fail or take long, and why the node cannot do its work; of the node its problems.
A name that matches nothing exactly may be the beginning of several.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from trikubelet.cli import asking, blocking
from trikubelet.cli.arguments import Parser
from trikubelet.cli.client import AgentClient
from trikubelet.cli.describe.event import describe_event
from trikubelet.cli.describe.image import describe_image
from trikubelet.cli.describe.node import describe_node
from trikubelet.cli.describe.pod import describe_pod
from trikubelet.cli.describe.volume import describe_pod_volume
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.kinds import KINDS, PODS, add_kind_argument, read_things
from trikubelet.model.faults import nearest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from trikubelet.cli.kinds import Kind, Listed

    Described = Callable[[AgentClient, Sequence[Listed]], Awaitable[list[list[str]]]]
    """The lines about each of the chosen."""


def parser() -> argparse.ArgumentParser:
    """The arguments of ``describe``."""
    made = Parser(prog="trikubelet describe", description="Show what this node has in detail.")
    add_kind_argument(made, [kind.name for kind in KINDS], "what to describe")
    about_names = "which, or the beginning of its name (default: every)"
    made.add_argument("names", nargs="*", default=[], metavar="NAME", help=about_names)  # else argparse requires it
    made.add_argument("-A", "--all-namespaces", action="store_true", help="of every namespace")
    asking.add_namespace_option(made)
    asking.add_agent_options(made)
    return made


def run(argv: Sequence[str]) -> int:
    """Carry out ``describe``; the exit code. Raises CommandFailed."""
    args = parser().parse_intermixed_args(argv)
    blocking.run(_describe, args, read_things(args))
    return 0


async def _describe(args: argparse.Namespace, kind: Kind) -> None:
    agent = asking.agent_of(args)
    everything = await kind.ask(agent)
    chosen = await _chosen(agent, args, kind, everything)
    for number, lines in enumerate(await _DESCRIBED[kind.name](agent, chosen)):
        if number:
            print("\n")
        print("\n".join(lines))


async def _chosen(
    agent: AgentClient, args: argparse.Namespace, kind: Kind, everything: Sequence[Listed]
) -> list[Listed]:
    """What is meant, each thing once. Raises CommandFailed for a name that is not there."""
    anywhere = args.all_namespaces or not kind.namespaced
    here = [one for one in everything if anywhere or one.namespace == args.namespace]
    chosen = [] if args.names else here
    for name in args.names:
        exact = [one for one in here if name in (one.name, *one.aliases)]
        found = exact or [one for one in here if one.name.startswith(name)]
        if not found:
            raise await _missing(agent, kind, name, args.namespace, everything)
        chosen += found
    return [one for place, one in enumerate(chosen) if all(one.whole is not other.whole for other in chosen[:place])]


async def _missing(
    agent: AgentClient, kind: Kind, name: str, namespace: str, everything: Sequence[Listed]
) -> CommandFailed:
    """A pod that is not there may be one whose manifest cannot be read: the faults are then the answer."""
    if kind is not PODS:
        hint = nearest(name, [one.name for one in everything])
        return CommandFailed(f'{kind.names[0]} "{name}" not found{f" ({hint})" if hint else ""}')
    return await asking.with_faults(agent, asking.not_found(name, namespace, [one.whole for one in everything]))


async def _pods(agent: AgentClient, chosen: Sequence[Listed]) -> list[list[str]]:
    faults = await asking.faults(agent)
    events, work, problems = await asking.events(agent), await asking.work(agent), (await asking.node(agent)).problems
    described = []
    for pod in [one.whole for one in chosen]:
        meta = pod.metadata
        about = [event for event in events if event.involved_object.uid == meta.uid]
        wrong = [fault for fault in faults if f"{meta.namespace}/{meta.name}" in fault.running]
        described.append(describe_pod(pod, about, wrong, work.get(meta.uid), problems, asking.now_ns()))
    return described


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


_DESCRIBED: Final[Mapping[str, Described]] = {
    "pod": _pods,
    "node": _nodes,
    "event": _events,
    "image": _images,
    "volume": _volumes,
}
