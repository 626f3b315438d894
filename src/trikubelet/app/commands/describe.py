"""``trikubelet describe pod NAME…``: everything about a pod that helps to see why it is as it is.

kubectl's layout, and at its end what only the node knows: faults of the pod's manifest, for then what runs is not what
the file says, and attempts of the agent that fail. A name that matches nothing exactly may be the beginning of several.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import trio

from trikubelet.app.client import Agent
from trikubelet.app.commands import asking
from trikubelet.app.commands.describe_pod import describe_pod

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trikubelet.app.commands.failed import CommandFailed
    from trikubelet.model.k8s import Pod
    from trikubelet.server.node_view import ManifestFault


def parser() -> argparse.ArgumentParser:
    """The words of ``describe``."""
    made = argparse.ArgumentParser(prog="trikubelet describe", description="Tell all about pods of this node.")
    made.add_argument("kind", choices=asking.POD_WORDS, metavar="pod")
    made.add_argument("names", nargs="*", metavar="NAME", help="of a pod, or its beginning (default: every pod)")
    made.add_argument("-A", "--all-namespaces", action="store_true", help="of every namespace")
    asking.add_namespace_option(made)
    asking.add_agent_options(made)
    return made


def run(argv: Sequence[str]) -> int:
    """Carry out ``describe``; the exit code. Raises CommandFailed."""
    words = list(argv)
    if words and "/" in words[0] and asking.bare_name(words[0]) != words[0]:
        words[:1] = ["pod", *words[:1]]
    args = parser().parse_args(words)
    args.names = [asking.bare_name(word) for word in args.names]
    trio.run(_describe, args)
    return 0


async def _describe(args: argparse.Namespace) -> None:
    agent = Agent(asking.socket_path(args))
    known = await asking.pods(agent)
    faults = await asking.faults(agent)
    chosen = _chosen(args, known, faults)
    events, work = await asking.events(agent), await asking.work(agent)
    now = asking.now_ns()
    for number, pod in enumerate(chosen):
        meta = pod.metadata
        about = [event for event in events if event.involved_object.uid == meta.uid]
        wrong = [fault for fault in faults if f"{meta.namespace}/{meta.name}" in fault.running]
        if number:
            print("\n")
        print("\n".join(describe_pod(pod, about, wrong, work.get(meta.uid), now)))


def _chosen(args: argparse.Namespace, known: Sequence[Pod], faults: Iterable[ManifestFault]) -> list[Pod]:
    """The pods that are meant. Raises CommandFailed for a name that is not there."""
    here = [pod for pod in known if args.all_namespaces or pod.metadata.namespace == args.namespace]
    if not args.names:
        return here
    chosen = []
    for name in args.names:
        exact = [pod for pod in here if pod.metadata.name == name]
        found = exact or [pod for pod in here if pod.metadata.name.startswith(name)]
        if not found:
            raise _missing(name, args.namespace, known, faults)
        chosen += found
    return chosen


def _missing(name: str, namespace: str, known: Iterable[Pod], faults: Iterable[ManifestFault]) -> CommandFailed:
    """A pod that is not there may be one whose manifest cannot be read: the faults are then the answer."""
    error = asking.not_found(name, namespace, known)
    orphaned = [str(fault) for fault in faults if not fault.running]
    if orphaned:
        error.args = ("\n".join([str(error), "It may be in one of these manifests, which have faults:", *orphaned]),)
    return error
