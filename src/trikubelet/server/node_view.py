"""What the servers may see of the node: one narrow, read-only Protocol.

``app/view.py`` implements it over the node's parts; tests give a view of their own. Nothing that is returned here
can change the node, and nothing blocks. The records are what goes over the wire, in camel case as the API has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from trikubelet.model.faults import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trikubelet.kit.call_figures import CallFigures
    from trikubelet.kit.distribution import Distribution
    from trikubelet.kit.thread_shares import ThreadShares
    from trikubelet.model import k8s
    from trikubelet.model.shutdown_times import ShutdownTimes
    from trikubelet.pleg.figures import Figures
    from trikubelet.probes.figures import ProbeFigures
    from trikubelet.server.node_figures import NodeFigures
    from trikubelet.status.figures import PublishFigures


SOCKET_NAME = "trikubelet.sock"
"""The local API's socket, below the root directory unless another place is configured."""


class ManifestFault(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One thing wrong with one manifest (``model.faults.Fault``). ``running`` names, as ``namespace/name``, the pods
    of this file that are not as it says now, but as it said when it last had no fault."""

    source: str
    problem: str
    line: int | None = None
    path: str = ""
    remedy: str = ""
    running: tuple[str, ...] = ()

    def __str__(self) -> str:
        return one_line(self.source, self.line, self.path, self.problem, self.remedy)


class ObjectNote(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A ConfigMap or Secret of a manifest, without its values: also those of a ConfigMap may be confidential. It has no
    annotations, because kubectl keeps values in one of them. ``keys`` are those of all its values."""

    kind: str
    namespace: str
    name: str
    keys: tuple[str, ...] = ()
    type: str = ""
    immutable: bool = False
    labels: dict[str, str] = {}


class ManifestNote(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The pods and objects of one manifest. ``source`` is its path or URL, ``pods`` are the UIDs of its pods."""

    source: str
    pods: tuple[str, ...] = ()
    objects: tuple[ObjectNote, ...] = ()


class PodWork(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the agent is doing about one pod. ``state`` is the worker's (Syncing, Terminating, …), ``syncs`` counts
    those begun, ``failures`` those that failed, ``busy_seconds`` how long the one under way has taken. A pod that PLEG
    cannot see has ``unseen_seconds``, and ``unseen_because``. ``volumes``: how each was left, by name; ``pulls``: where
    the pull of a container's image stands, by the container's name."""

    uid: str
    state: str
    syncs: int = 0
    failures: int = 0
    last_error: str = ""
    busy_seconds: float | None = None
    unseen_seconds: float | None = None
    unseen_because: str = ""
    volumes: dict[str, str] = {}
    pulls: dict[str, str] = {}


class NodeNote(msgspec.Struct, frozen=True):
    """The node itself: its name, and why it cannot do its work now, a sentence each. No problem is no sentence."""

    name: str
    problems: tuple[str, ...] = ()


class LogPlace(msgspec.Struct, frozen=True):
    """Where a container's log is, ``is_over``: whether that container writes no more, and ``threads``, by which it is
    read: its file system may hang."""

    path: str
    is_over: Callable[[], bool]
    threads: ThreadShares


class RunningContainer(msgspec.Struct, frozen=True):
    """A container that runs: the runtime's id, and ``tty``: whether its process has a terminal."""

    id: str
    tty: bool


class NotShown(Exception):
    """What was asked for cannot be shown; the message says why and what there is instead."""


class NoSuchPod(NotShown):
    """The node has no pod of that name."""


class NodeView(Protocol):
    """The node, for those who only look."""

    def pods(self) -> Sequence[k8s.Pod]:
        """Every pod with its newest status. An unchanged pod is the same object as the last time."""
        ...

    def running(self) -> Sequence[k8s.Pod]:
        """The pods of which something runs, wanted or not, with no more than the runtime knows: names and images of
        the containers that run."""
        ...

    def events(self) -> Sequence[k8s.Event]:
        """The events that are remembered, last seen longest ago first."""
        ...

    def faults(self) -> Sequence[ManifestFault]:
        """What is wrong with the manifests now."""
        ...

    def manifests(self) -> Sequence[ManifestNote]:
        """Return the pods and objects of each manifest, in the order of their sources."""
        ...

    def work(self) -> Sequence[PodWork]:
        """What the agent is doing, pod by pod."""
        ...

    def node(self) -> NodeNote:
        """How the node itself is."""
        ...

    def pleg(self) -> Figures:
        """How PLEG stands now."""
        ...

    def rejected(self) -> Mapping[str, int]:
        """How many pods the node rejected, by reason."""
        ...

    def preempted(self) -> Mapping[str, int]:
        """How many pods were ended to make room for critical ones, by the resource that was short."""
        ...

    def shutdown_times(self) -> ShutdownTimes:
        """When its pods were last ended because the machine went down."""
        ...

    def evicted(self) -> tuple[Mapping[str, int], Mapping[str, Distribution]]:
        """How many pods were evicted, and how old (seconds) the measurement was that each was evicted for; both by the
        eviction signal."""
        ...

    def images_removed(self) -> Mapping[str, int]:
        """How many unused images were removed, by the reason: ``age`` or ``space``."""
        ...

    def probes(self) -> Sequence[ProbeFigures]:
        """What each probe was answered so far."""
        ...

    def publishing(self) -> PublishFigures | None:
        """How far statuses and events are written to the API server; None on a node that has none."""
        ...

    def calls(self) -> Sequence[CallFigures]:
        """How calls to the runtime went, by their paths, connection by connection."""
        ...

    def figures(self) -> NodeFigures:
        """What else the node's parts have measured."""
        ...

    async def log(self, namespace: str, name: str, container: str, *, previous: bool) -> LogPlace:
        """The log of a container's newest run, or of the one before. Raises NotShown or NoSuchPod."""
        ...

    def running_container(self, namespace: str, name: str, container: str, uid: str = "") -> RunningContainer:
        """The run of a container that is under way; of the pod with that ``uid``, if one is given. Raises NotShown or
        NoSuchPod."""
        ...

    def running_sandbox(self, namespace: str, name: str, uid: str = "") -> str:
        """The id of a pod's sandbox that is ready; of the pod with that ``uid``, if one is given. Raises NotShown or
        NoSuchPod."""
        ...
