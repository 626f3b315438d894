"""What the servers may see of the node: one narrow, read-only Protocol.

``app/view.py`` implements it over the node's parts; tests give a view of their own. Nothing that is handed out here
can change the node, and nothing blocks. The records are what goes over the wire, in camel case as the API has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trikubelet.model import k8s


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
        where = self.source if self.line is None else f"{self.source}:{self.line}"
        what = f"{self.path}: {self.problem}" if self.path else self.problem
        return f"{where}: {what} ({self.remedy})" if self.remedy else f"{where}: {what}"


class PodWork(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the agent is doing about one pod. ``state`` is the worker's (Syncing, Terminating, …), ``attempts`` counts
    those begun, ``failures`` those that failed, ``busy_seconds`` how long the one under way has taken."""

    uid: str
    state: str
    attempts: int = 0
    failures: int = 0
    last_error: str = ""
    busy_seconds: float | None = None


class NodeNote(msgspec.Struct, frozen=True):
    """The node itself: its name, and why it cannot do its work now, a sentence each. No trouble is no sentence."""

    name: str
    troubles: tuple[str, ...] = ()


class LogPlace(msgspec.Struct, frozen=True):
    """Where a container's log is, and ``is_over``: whether that container writes no more."""

    path: str
    is_over: Callable[[], bool]


class NotShown(Exception):
    """What was asked for cannot be shown; the message says why and what there is instead."""


class NoSuchPod(NotShown):
    """The node has no pod of that name."""


class NodeView(Protocol):
    """The node, for those who only look."""

    def pods(self) -> Sequence[k8s.Pod]:
        """Every pod with its newest status. An unchanged pod is the same object as the last time."""
        ...

    def events(self) -> Sequence[k8s.Event]:
        """The events that are remembered, last seen longest ago first."""
        ...

    def faults(self) -> Sequence[ManifestFault]:
        """What is wrong with the manifests now."""
        ...

    def work(self) -> Sequence[PodWork]:
        """What the agent is doing, pod by pod."""
        ...

    def node(self) -> NodeNote:
        """How the node itself is."""
        ...

    def log(self, namespace: str, name: str, container: str, *, previous: bool) -> LogPlace:
        """The log of a container's newest run, or of the one before. Raises NotShown or NoSuchPod."""
        ...
