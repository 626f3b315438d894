"""NodeView, a narrow, read-only Protocol with the state of the node that the servers may read.

``app/view.py`` implements it over the node's parts; tests have their own implementation. Results cannot change the
node, and no method blocks. The records are sent as they are, in camel case like the API's.
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
    """One fault of one manifest (``model.faults.Fault``). ``running``: the pods of this file, as ``namespace/name``,
    that still have the configuration of its last valid version."""

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
    """The pods and objects of one manifest. ``source``: its path or URL; ``pods``: the UIDs of its pods."""

    source: str
    pods: tuple[str, ...] = ()
    objects: tuple[ObjectNote, ...] = ()


class PodWork(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The agent's work on one pod. ``state``: the worker's (Syncing, Terminating, …); ``syncs``: number begun;
    ``failures``: number failed; ``busy_seconds``: duration of the current sync. A pod that PLEG cannot inspect has
    ``unseen_seconds`` and ``unseen_because``. ``volumes``: their states, by name; ``pulls``: the progress of image
    pulls, by the container's name."""

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
    """The node's name, and its problems, a sentence each; none on a healthy node."""

    name: str
    problems: tuple[str, ...] = ()


class LogPlace(msgspec.Struct, frozen=True):
    """The place of a container's log. ``is_over``: returns true once the container writes no more; ``threads``: for
    reading it, because its file system may hang."""

    path: str
    is_over: Callable[[], bool]
    threads: ThreadShares


class RunningContainer(msgspec.Struct, frozen=True):
    """A running container: the runtime's id, and ``tty``, true if its process has a terminal."""

    id: str
    tty: bool


class NotShown(Exception):
    """The requested data cannot be shown; the message has the reason and the alternatives."""


class NoSuchPod(NotShown):
    """The node has no pod of that name."""


class NodeView(Protocol):
    """The node, for readers only."""

    def pods(self) -> Sequence[k8s.Pod]:
        """Return every pod with its newest status. An unchanged pod is the same object as in the last call."""
        ...

    def running(self) -> Sequence[k8s.Pod]:
        """Return the pods with a running container, desired or not, with only what the runtime knows: names and images
        of the running containers."""
        ...

    def events(self) -> Sequence[k8s.Event]:
        """Return the recorded events, least recently seen first."""
        ...

    def faults(self) -> Sequence[ManifestFault]:
        """Return the current faults of the manifests."""
        ...

    def manifests(self) -> Sequence[ManifestNote]:
        """Return the pods and objects of each manifest, in the order of their sources."""
        ...

    def work(self) -> Sequence[PodWork]:
        """Return the agent's work, by pod."""
        ...

    def node(self) -> NodeNote:
        """Return the node's name and problems."""
        ...

    def pleg(self) -> Figures:
        """Return PLEG's current figures."""
        ...

    def rejected(self) -> Mapping[str, int]:
        """Return the number of rejected pods, by reason."""
        ...

    def preempted(self) -> Mapping[str, int]:
        """Return the number of pods preempted for critical ones, by the resource that was short."""
        ...

    def shutdown_times(self) -> ShutdownTimes:
        """Return when the node's pods were last terminated because the machine shut down."""
        ...

    def evicted(self) -> tuple[Mapping[str, int], Mapping[str, Distribution]]:
        """Return the number of evicted pods, and the age in seconds of the measurement that caused each eviction, both
        by eviction signal."""
        ...

    def images_removed(self) -> Mapping[str, int]:
        """Return the number of unused images removed, by the reason: ``age`` or ``space``."""
        ...

    def probes(self) -> Sequence[ProbeFigures]:
        """Return the results of each probe so far."""
        ...

    def publishing(self) -> PublishFigures | None:
        """Return the progress of writing statuses and events to the API server; None on a node without one."""
        ...

    def calls(self) -> Sequence[CallFigures]:
        """Return the calls to the runtime, by connection and path."""
        ...

    def figures(self) -> NodeFigures:
        """Return the other figures of the node's parts."""
        ...

    async def log(self, namespace: str, name: str, container: str, *, previous: bool) -> LogPlace:
        """Return the log of a container's newest run, or of the one before. Raises NotShown or NoSuchPod."""
        ...

    def running_container(self, namespace: str, name: str, container: str, uid: str = "") -> RunningContainer:
        """Return the running instance of a container; of the pod with that ``uid``, if one is given. Raises NotShown or
        NoSuchPod."""
        ...

    def running_sandbox(self, namespace: str, name: str, uid: str = "") -> str:
        """Return the id of a pod's ready sandbox; of the pod with that ``uid``, if one is given. Raises NotShown or
        NoSuchPod."""
        ...
