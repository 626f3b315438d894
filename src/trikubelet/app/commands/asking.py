"""What every verb that asks the agent shares: the options that find it, and its answers as typed records."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, TypeVar

import msgspec

from trikubelet.app.commands.failed import CommandFailed
from trikubelet.app.commands.pod_row import in_order
from trikubelet.app.paths import places_for
from trikubelet.model.errors import StartFailed
from trikubelet.model.faults import nearest
from trikubelet.model.k8s import Event, Pod
from trikubelet.server.node_view import SOCKET_NAME, ManifestFault, NodeNote, PodWork

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from trikubelet.app.client import Agent

DEFAULT_NAMESPACE = "default"


class Items(msgspec.Struct, frozen=True):
    """A list as the API has it, of pods."""

    items: tuple[Pod, ...]


class EventItems(msgspec.Struct, frozen=True):
    """The same of events."""

    items: tuple[Event, ...]


class Faults(msgspec.Struct, frozen=True):
    """What ``/faults`` answers."""

    faults: tuple[ManifestFault, ...]


class Work(msgspec.Struct, frozen=True):
    """What ``/work`` answers."""

    pods: tuple[PodWork, ...]


def add_agent_options(parser: argparse.ArgumentParser) -> None:
    """``--root-dir`` and ``--socket``."""
    group = parser.add_argument_group("finding the agent")
    group.add_argument("--root-dir", metavar="DIR", help="the agent's root directory (default: what it would use)")
    group.add_argument("--socket", metavar="PATH", help="its socket (default: where that agent would listen)")


def add_namespace_option(parser: argparse.ArgumentParser) -> None:
    """``-n``."""
    parser.add_argument("-n", "--namespace", metavar="NAME", default=DEFAULT_NAMESPACE, help="default: %(default)s")


def socket_path(args: argparse.Namespace) -> str:
    """Where the agent is to be asked: where an agent of this user, given the same root directory, would listen.
    Raises CommandFailed."""
    if args.socket:
        return str(args.socket)
    try:
        places = [places_for(os.geteuid(), os.environ, args.root_dir or "", embedded=one) for one in (False, True)]
    except StartFailed as error:
        raise CommandFailed(str(error)) from error
    sockets = [place.run_dir / SOCKET_NAME for place in places]
    return str(next((socket for socket in sockets if socket.exists()), sockets[0]))


def now_ns() -> int:
    """Now, in nanoseconds since the epoch: a command is a process of its own, and ages are by its clock."""
    return time.time_ns()


async def pods(agent: Agent) -> list[Pod]:
    """Every pod of the node, in order."""
    return in_order(_decode(await agent.get("/pods"), Items).items)


async def events(agent: Agent) -> list[Event]:
    """The node's events, last seen longest ago first."""
    found = _decode(await agent.get("/events"), EventItems).items
    return sorted(found, key=lambda event: event.last_timestamp)


async def faults(agent: Agent) -> tuple[ManifestFault, ...]:
    """What is wrong with the manifests."""
    return _decode(await agent.get("/faults"), Faults).faults


async def node(agent: Agent) -> NodeNote:
    """How the node itself is."""
    return _decode(await agent.get("/node"), NodeNote)


async def work(agent: Agent) -> dict[str, PodWork]:
    """What the agent is doing, by the pod's UID."""
    return {one.uid: one for one in _decode(await agent.get("/work"), Work).pods}


T = TypeVar("T")


def _decode(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise CommandFailed(f"the agent's answer is not understood: {error}; is it of another version?") from error


def not_found(name: str, namespace: str, known: Iterable[Pod]) -> CommandFailed:
    """What to say of a pod that is not there: what is there instead, if it is near."""
    known = list(known)
    elsewhere = [pod.metadata.namespace for pod in known if pod.metadata.name == name]
    here = [pod.metadata.name for pod in known if pod.metadata.namespace == namespace]
    # Whoever wrote the manifest knows the pod without the node's name behind it.
    longer = [other for other in here if other.startswith(f"{name}-")]
    if elsewhere:
        hint = f"there is one in namespace {elsewhere[0]}: use -n {elsewhere[0]}"
    else:
        hint = f'did you mean "{longer[0]}"?' if longer else nearest(name, here)
    return CommandFailed(f'pods "{name}" not found' + (f" ({hint})" if hint else ""))


def bare_name(word: str) -> str:
    """A pod's name out of ``NAME`` or ``pod/NAME``."""
    kind, slash, name = word.partition("/")
    return name if slash and kind in POD_WORDS else word


POD_WORDS = ("pods", "pod", "po")
EVENT_WORDS = ("events", "event", "ev")
