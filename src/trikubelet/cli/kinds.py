"""What ``get`` and ``describe`` can show: for each kind its names, its columns, and how the answer becomes rows.

A listed thing is reduced to what it is chosen and printed by: name, namespace, labels, cells, and the object itself.
``get`` knows no kind by itself but pods, for which the agent has a watch; a new kind is an entry in ``KINDS``, and one
in those of ``describe``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from trikubelet.cli import asking
from trikubelet.cli.describe.image import image_cells
from trikubelet.cli.failed import Misunderstood
from trikubelet.core.kubectl import event_row, node_row, pod_row
from trikubelet.model.faults import nearest

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from trikubelet.cli.client import AgentClient
    from trikubelet.model.k8s import Event, Pod, Volume


@dataclass(frozen=True, slots=True)
class Listed:
    """One thing. ``namespace`` is empty for what has none; ``cells`` are those of all columns, the wide ones last;
    ``aliases`` are other names it goes by."""

    name: str
    cells: Sequence[str]
    whole: Any
    namespace: str = ""
    labels: Mapping[str, str] | None = None
    aliases: tuple[str, ...] = ()

    @property
    def identity(self) -> tuple[str, ...]:
        """What stays the same of it from one look to the next. An image has a row for each of its names."""
        return (self.namespace, self.name, *self.aliases)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of things. ``name`` is the one ``-o name`` prints, ``names`` are all that users may call it; ``wide``:
    columns that only ``-o wide`` shows; ``namespaced``: whether such a thing belongs to a namespace."""

    name: str
    names: tuple[str, ...]
    columns: tuple[str, ...]
    ask: Callable[[AgentClient], Awaitable[Sequence[Listed]]]
    wide: tuple[str, ...] = ()
    namespaced: bool = False

    def bare_name(self, word: str) -> str:
        """A name out of ``NAME`` or ``KIND/NAME``."""
        before, slash, name = word.partition("/")
        return name if slash and before in self.names else word


def listed_pod(pod: Pod) -> Listed:
    """A pod as it is listed now."""
    meta = pod.metadata
    return Listed(meta.name, pod_row.pod_row(pod, asking.now_ns()).cells, pod, meta.namespace, meta.labels)


async def _pods(agent: AgentClient) -> Sequence[Listed]:
    return [listed_pod(pod) for pod in await asking.pods(agent)]


async def _events(agent: AgentClient) -> Sequence[Listed]:
    return [_listed_event(event) for event in await asking.events(agent)]


def _listed_event(event: Event) -> Listed:
    cells = event_row.event_cells(event, asking.now_ns())
    namespace = event.metadata.namespace or asking.DEFAULT_NAMESPACE
    return Listed(event.metadata.name, cells, event, namespace)


async def _nodes(agent: AgentClient) -> Sequence[Listed]:
    now = asking.now_ns()
    return [
        Listed(node.metadata.name, node_row.node_cells(node, now), node, labels=node.metadata.labels)
        for node in await asking.nodes(agent)
    ]


async def _images(agent: AgentClient) -> Sequence[Listed]:
    return [
        Listed(cells[2], cells, image, aliases=(f"{cells[0]}:{cells[1]}", image.id))
        for image in await asking.images(agent)
        for cells in image_cells(image)
    ]


async def _volumes(agent: AgentClient) -> Sequence[Listed]:
    """Every volume of every pod, and how it was left."""
    work = await asking.work(agent)
    return [
        _listed_volume(pod, volume, work[pod.metadata.uid].volumes if pod.metadata.uid in work else {})
        for pod in await asking.pods(agent)
        for volume in pod.spec.volumes
    ]


def _listed_volume(pod: Pod, volume: Volume, states: Mapping[str, str]) -> Listed:
    spec = msgspec.to_builtins(volume)
    kind = next((member for member in spec if member != "name"), "emptyDir")  # the API's default
    meta, state = pod.metadata, states.get(volume.name, "")
    whole = {"kind": "Volume", "pod": meta.name, "namespace": meta.namespace, "state": state, "spec": spec}
    cells = (meta.name, volume.name, kind, state)
    return Listed(f"{meta.name}/{volume.name}", cells, whole, meta.namespace, meta.labels)


PODS: Final = Kind("pod", asking.POD_KIND_NAMES, pod_row.COLUMNS, _pods, pod_row.WIDE_COLUMNS, namespaced=True)
KINDS: Final = (
    PODS,
    Kind("node", ("nodes", "node", "no"), node_row.COLUMNS, _nodes, node_row.WIDE_COLUMNS),
    Kind("event", ("events", "event", "ev"), event_row.COLUMNS, _events, event_row.WIDE_COLUMNS, namespaced=True),
    Kind("image", ("images", "image"), ("REPOSITORY", "TAG", "IMAGE ID", "SIZE"), _images, ("PINNED",)),
    Kind("volume", ("volumes", "volume"), ("POD", "NAME", "KIND", "STATE"), _volumes, namespaced=True),
)


def kind_of(word: str) -> Kind | None:
    """The kind of that name."""
    return next((kind for kind in KINDS if word in kind.names), None)


class _KindNames(tuple[str, ...]):
    """Every name of a kind, as it is offered and completed. ``read_kind`` is who refuses others."""

    __slots__ = ()

    def __contains__(self, _: object) -> bool:
        return True


def add_kind_argument(parser: argparse.ArgumentParser, kinds: Iterable[str], help_: str) -> None:
    """The first argument of a verb that is about a thing, and the names after it. ``kinds``: what to call the kinds."""
    names = _KindNames(name for kind in KINDS for name in kind.names)
    parser.add_argument("kind", type=_read_kind, choices=names, metavar="|".join(kinds), help=help_)


def _read_kind(said: str) -> tuple[Kind, str]:
    """A kind out of ``KIND`` or ``KIND/NAME``, and the name. Raises Misunderstood."""
    word, _, name = said.partition("/")
    if (kind := kind_of(word)) is None:
        known = [word for kind in KINDS for word in kind.names]
        remedy = nearest(word, known) or f"there are {', '.join(kind.names[0] for kind in KINDS)}"
        raise Misunderstood(f'"{word}" is no kind of thing ({remedy})')
    return kind, name


def read_things(args: argparse.Namespace) -> Kind:
    """The kind that was said. A name behind its slash is the first of ``args.names``, which are bare afterwards."""
    kind: Kind
    kind, name = args.kind
    args.names = [kind.bare_name(word) for word in ([name] if name else []) + args.names]
    return kind
