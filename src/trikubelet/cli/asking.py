"""Shared by all clients of the agent: the options that find it, and its answers as typed records."""

from __future__ import annotations

import itertools
import os
import socket
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import msgspec

from trikubelet.app.paths import RUNTIME_RECORD, places_for
from trikubelet.cli.client import AgentClient
from trikubelet.cli.failed import CommandFailed, Misunderstood
from trikubelet.cli.kind_names import POD_KIND_NAMES
from trikubelet.cli.terminal import in_a_cell
from trikubelet.core.kubectl.pod_row import in_order
from trikubelet.model.errors import StartFailed
from trikubelet.model.faults import nearest
from trikubelet.model.k8s import Event, Node, Pod
from trikubelet.model.summary import Summary
from trikubelet.server.agent_view import ConfigNote, ImageNote
from trikubelet.server.node_view import SOCKET_NAME, ManifestFault, ManifestNote, NodeNote, PodWork

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence

    from trikubelet.app.paths import Places
    from trikubelet.app.settings import Settings

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
"""The annotation with which a pod names its default container."""


class Items(msgspec.Struct, frozen=True):
    """A list of pods, as the API has it."""

    items: tuple[Pod, ...]


class EventItems(msgspec.Struct, frozen=True):
    """The same of events."""

    items: tuple[Event, ...]


class NodeItems(msgspec.Struct, frozen=True):
    """The same of nodes."""

    items: tuple[Node, ...]


class Images(msgspec.Struct, frozen=True):
    """The answer of ``/images``."""

    images: tuple[ImageNote, ...]


class Restarting(msgspec.Struct, frozen=True):
    """The answer of ``/restart``."""

    runs: dict[str, str]


class Change(msgspec.Struct, frozen=True):
    """A line of a watch of pods."""

    type: str
    object: Pod


class Faults(msgspec.Struct, frozen=True):
    """The answer of ``/faults``."""

    faults: tuple[ManifestFault, ...]


class Manifests(msgspec.Struct, frozen=True):
    """The answer of ``/manifests``."""

    manifests: tuple[ManifestNote, ...]


class Work(msgspec.Struct, frozen=True):
    """The answer of ``/work``."""

    pods: tuple[PodWork, ...]


def settings_of(flags: Sequence[str], root_dir: str | None = None) -> Settings:
    """Return the settings of an agent with these flags and ``root_dir``, the value of the verb's own option. Raises
    CommandFailed with every fault of flags and files, or Misunderstood if one of them is in the flags."""
    # Imported here because clients do not need the agent's modules.
    from trikubelet.app.flags import parse_agent_flags  # noqa: PLC0415
    from trikubelet.app.settings import Surroundings, load_settings  # noqa: PLC0415

    read = parse_agent_flags(flags)
    if root_dir:
        if read.root_dir and os.path.realpath(read.root_dir) != os.path.realpath(root_dir):
            raise Misunderstood(f"--root-dir={root_dir} is given before --, and --root-dir={read.root_dir} after it")
        read = replace(read, root_dir=root_dir)
    try:
        return load_settings(read, Surroundings(os.geteuid(), os.environ, socket.gethostname()))
    except StartFailed as error:
        raise (Misunderstood if read.faults or read.show else CommandFailed)(str(error)) from error


def agent_of(args: argparse.Namespace) -> AgentClient:
    """Return a client of the agent that the options find. Raises CommandFailed."""
    return AgentClient(socket_path(args), None if args.socket else places_of(args).root_dir)


def socket_path(args: argparse.Namespace) -> str:
    """Return the path of the agent's socket. Raises CommandFailed."""
    return str(args.socket or places_of(args).run_dir / SOCKET_NAME)


def places_of(args: argparse.Namespace) -> Places:
    """Return the places of the agent that the options find: one of this user, with the given root directory, that
    listens, has ended, or would start there. Raises CommandFailed."""
    try:
        places = [places_for(os.geteuid(), os.environ, args.root_dir or "", inside=one) for one in (False, True)]
    except StartFailed as error:
        raise CommandFailed(str(error)) from error
    # os.path.exists is false for paths that this user may not see; connecting will report that.
    listening = (place for place in places if os.path.exists(place.run_dir / SOCKET_NAME))
    left = (place for place in places if os.path.exists(place.root_dir / RUNTIME_RECORD))  # of an agent that has ended
    return next(itertools.chain(listening, left, places))


def now_ns() -> int:
    """Return the time in nanoseconds since the epoch, by this process's own clock."""
    return time.time_ns()


async def pods(agent: AgentClient) -> list[Pod]:
    """Return every pod of the node, in order."""
    return in_order(decode(await agent.get("/pods"), Items).items)


async def events(agent: AgentClient) -> list[Event]:
    """Return the node's events, least recently seen first."""
    found = decode(await agent.get("/events"), EventItems).items
    return sorted(found, key=lambda event: event.last_timestamp)


async def pod_named(agent: AgentClient, namespace: str, name: str) -> Pod:
    """Return the pod of that name. Raises CommandFailed with the nearest names if there is none."""
    known = await pods(agent)
    for pod in known:
        if (pod.metadata.namespace, pod.metadata.name) == (namespace, name):
            return pod
    raise not_found(name, namespace, known)


@asynccontextmanager
async def pod_changes(agent: AgentClient) -> AsyncGenerator[AsyncIterator[Change], None]:
    """Yield the existing pods, each as ADDED, and then every change, for as long as the block lasts."""

    async def changes(parts: AsyncIterator[bytes]) -> AsyncGenerator[Change, None]:
        torn = b""
        async for part in parts:
            *whole, torn = (torn + part).split(b"\n")
            for line in whole:
                yield decode(line, Change)

    async with agent.stream("/pods", {"watch": "true"}) as parts:
        yield changes(parts)


async def nodes(agent: AgentClient) -> tuple[Node, ...]:
    """Return this node, as the API has it."""
    return decode(await agent.get("/nodes"), NodeItems).items


async def images(agent: AgentClient) -> tuple[ImageNote, ...]:
    """Return the runtime's images."""
    return decode(await agent.get("/images"), Images).images


async def used(agent: AgentClient) -> Summary:
    """Return the CPU and memory that node, pods and containers use."""
    return decode(await agent.get("/stats/summary", {"only_cpu_and_memory": "true"}), Summary)


async def configuration(agent: AgentClient) -> ConfigNote:
    """Return the agent's configuration."""
    return decode(await agent.get("/config"), ConfigNote)


async def kubeconfig(agent: AgentClient) -> bytes:
    """Return a kubeconfig for this node."""
    return await agent.get("/kubeconfig")


async def restart(agent: AgentClient, namespace: str, name: str, container: str) -> dict[str, str]:
    """Request a restart of a pod's containers, or of one. Return the runtime's ids of the runs that will be stopped, by
    the names of the containers."""
    query = {"container": container} if container else None
    return decode(await agent.post(f"/restart/{namespace}/{name}", query), Restarting).runs


async def faults(agent: AgentClient) -> tuple[ManifestFault, ...]:
    """Return the faults of the manifests."""
    return decode(await agent.get("/faults"), Faults).faults


async def manifests(agent: AgentClient) -> tuple[ManifestNote, ...]:
    """Return the pods and objects of each manifest."""
    return decode(await agent.get("/manifests"), Manifests).manifests


async def node(agent: AgentClient) -> NodeNote:
    """Return the node's name and problems."""
    return decode(await agent.get("/node"), NodeNote)


async def work(agent: AgentClient) -> dict[str, PodWork]:
    """Return the agent's work, by the pod's UID."""
    return {one.uid: one for one in decode(await agent.get("/work"), Work).pods}


T = TypeVar("T")


def decode(body: bytes, kind: type[T]) -> T:
    """Decode the answer as that record. Raises CommandFailed."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise CommandFailed(f"cannot decode the agent's answer: {error} (is it of another version?)") from error


def not_found(name: str, namespace: str, known: Iterable[Pod]) -> CommandFailed:
    """Return the error for a missing pod, with the nearest existing one."""
    known = list(known)
    elsewhere = [pod.metadata.namespace for pod in known if pod.metadata.name == name]
    elsewhere = [other for other in elsewhere if other != namespace]
    here = [pod.metadata.name for pod in known if pod.metadata.namespace == namespace]
    # The author of the manifest knows the pod without the node's name at its end.
    longer = [other for other in here if other.startswith(f"{name}-")]
    if elsewhere:
        hint = f"there is one in namespace {elsewhere[0]}: use -n {elsewhere[0]}"
    else:
        hint = f'did you mean "{longer[0]}"?' if longer else nearest(name, here)
    return CommandFailed(f'pods "{name}" not found' + (f" ({hint})" if hint else ""))


def nothing_found(namespace: str = "", elsewhere: str = "") -> str:
    """Return kubectl's message about an empty list, in a namespace or in all; ``elsewhere``: the number in others."""
    if not namespace:
        return "No resources found"
    hint = f" ({elsewhere} in others: use -A)" if elsewhere else ""
    return f"No resources found in {namespace} namespace.{hint}"


def counted(number: int, kind: str) -> str:
    """Return ``2 pods`` or ``1 pod``; empty for none."""
    return f"{number} {kind}{'' if number == 1 else 's'}" if number else ""


async def with_faults(agent: AgentClient, error: CommandFailed) -> CommandFailed:
    """Return the error about a missing pod with the faults of manifests, because it may be in one of those."""
    found = [in_a_cell(str(fault)) for fault in await faults(agent)]
    if not found:
        return error
    return CommandFailed("\n".join([str(error), "It may be in one of these manifests, which have faults:", *found]))


def default_container(pod: Pod, *, quiet: bool = False) -> str:
    """Return the default container: the one in the pod's annotation, else the first. In the latter case, its name is
    printed on standard error, in kubectl's words, if there are others and it is not ``quiet``. Raises CommandFailed."""
    names = [container.name for container in pod.spec.containers]
    wanted = pod.metadata.annotations.get(DEFAULT_CONTAINER, "")
    if not names:
        raise CommandFailed(f'pod "{pod.metadata.name}" has no containers')
    chosen = wanted if wanted in names else names[0]
    others = [f"{container.name} (init)" for container in pod.spec.init_containers]
    others += [f"{container.name} (ephem)" for container in pod.spec.ephemeral_containers]
    if not (wanted or quiet) and len(known := [*names, *others]) > 1:
        print(f'Defaulted container "{chosen}" out of: {", ".join(known)}', file=sys.stderr)
    return chosen


def bare_name(word: str) -> str:
    """Return the pod's name in ``NAME`` or ``pod/NAME``."""
    kind, slash, name = word.partition("/")
    return name if slash and kind in POD_KIND_NAMES else word


def pod_names(words: Sequence[str]) -> list[str]:
    """Return the pods' names in ``NAME…``, ``pod NAME…`` or ``pod/NAME…``."""
    return [bare_name(word) for word in (words[1:] if words and words[0] in POD_KIND_NAMES else words)]
