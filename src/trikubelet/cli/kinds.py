"""The kinds that ``get`` and ``describe`` show: their names, their columns, and their rows.

A listed object is reduced to the data by which it is selected and printed: name, namespace, labels, cells, and the
object itself. ``get`` treats only pods specially, because the agent has a watch for them; a new kind is an entry in
``KINDS``, and one in those of ``describe``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from trikubelet.cli import asking
from trikubelet.cli.kind_names import KIND_NAMES
from trikubelet.cli.options import DEFAULT_NAMESPACE
from trikubelet.core.kubectl import event_row, node_row, pod_row
from trikubelet.core.kubectl.fields import EVENT_FIELDS, NODE_FIELDS, POD_FIELDS
from trikubelet.core.kubectl.words import NONE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from trikubelet.cli.client import AgentClient
    from trikubelet.core.kubectl.fields import Fields
    from trikubelet.model.k8s import Event, Pod, Volume
    from trikubelet.server.node_view import ObjectNote


FEW: Final = 3
"""Names that a cell lists."""


class Listed(msgspec.Struct, frozen=True):
    """One object. ``namespace`` is empty for a kind without namespaces; ``cells``: those of all columns, the wide ones
    last; ``aliases``: other names of it; ``about``: the object that it concerns or belongs to, as ``KIND/NAME``."""

    name: str
    cells: Sequence[str]
    whole: Any
    namespace: str = ""
    labels: Mapping[str, str] | None = None
    aliases: tuple[str, ...] = ()
    about: str = ""

    @property
    def identity(self) -> tuple[str, ...]:
        """Return what identifies it in the next listing. An image has a row for each of its names."""
        return (self.namespace, self.name, *self.aliases)


class Kind(msgspec.Struct, frozen=True, eq=False):
    """One kind of objects. ``name``: the one that ``-o name`` prints; ``names``: all accepted names; ``wide``: columns
    that only ``-o wide`` shows; ``namespaced``: such objects have a namespace; ``fields``: the fields for field
    selectors."""

    name: str
    names: tuple[str, ...]
    columns: tuple[str, ...]
    ask: Callable[[AgentClient], Awaitable[Sequence[Listed]]]
    wide: tuple[str, ...] = ()
    namespaced: bool = False
    fields: Fields = msgspec.field(default_factory=dict)


def listed_pod(pod: Pod) -> Listed:
    """Return a pod as it is listed now."""
    meta = pod.metadata
    return Listed(meta.name, pod_row.pod_row(pod, asking.now_ns()).cells, pod, meta.namespace, meta.labels)


async def _pods(agent: AgentClient) -> Sequence[Listed]:
    return [listed_pod(pod) for pod in await asking.pods(agent)]


async def _events(agent: AgentClient) -> Sequence[Listed]:
    return [_listed_event(event) for event in await asking.events(agent)]


def _listed_event(event: Event) -> Listed:
    cells = event_row.event_cells(event, asking.now_ns())
    namespace = event.metadata.namespace or DEFAULT_NAMESPACE
    about = f"{event.involved_object.kind.lower()}/{event.involved_object.name}"
    return Listed(event.metadata.name, cells, event, namespace, about=about)


async def _nodes(agent: AgentClient) -> Sequence[Listed]:
    now = asking.now_ns()
    return [
        Listed(node.metadata.name, node_row.node_cells(node, now), node, labels=node.metadata.labels)
        for node in await asking.nodes(agent)
    ]


async def _images(agent: AgentClient) -> Sequence[Listed]:
    from trikubelet.cli.describe.image import image_cells  # noqa: PLC0415 - listing pods does not need it

    return [
        Listed(cells[2], cells, image, aliases=(f"{cells[0]}:{cells[1]}", image.id))
        for image in await asking.images(agent)
        for cells in image_cells(image)
    ]


async def _volumes(agent: AgentClient) -> Sequence[Listed]:
    """Return every volume of every pod, with its state."""
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
    name = f"{meta.name}/{volume.name}"
    return Listed(name, cells, whole, meta.namespace, meta.labels, (volume.name,), f"{PODS.name}/{meta.name}")


async def _configmaps(agent: AgentClient) -> Sequence[Listed]:
    return await _objects(agent, "ConfigMap")


async def _secrets(agent: AgentClient) -> Sequence[Listed]:
    return await _objects(agent, "Secret")


async def _objects(agent: AgentClient, kind: str) -> Sequence[Listed]:
    """Return the objects of one kind in manifests, with the pods that read them."""
    from trikubelet.core.object_users import users  # noqa: PLC0415 - listing pods does not need it

    manifests, pods = await asking.manifests(agent), await asking.pods(agent)
    return [
        _listed_object(one, manifest.source, [*users(pods, one.kind, one.namespace, one.name)])
        for manifest in manifests
        for one in manifest.objects
        if one.kind == kind
    ]


def _listed_object(one: ObjectNote, source: str, used_by: Sequence[str]) -> Listed:
    # Not a kind that can be applied: without the values it would replace the object by an empty one.
    whole: dict[str, Any] = {
        "kind": f"{one.kind}Summary",
        "metadata": {"name": one.name, "namespace": one.namespace, "labels": one.labels},
        "keys": one.keys,
        "immutable": one.immutable,
        "usedBy": used_by,
        "manifest": source,
    }
    if one.type:
        whole["type"] = one.type
    cells = (one.name, *([one.type] if one.type else []), _few(one.keys), _few(used_by), source)
    return Listed(one.name, cells, whole, one.namespace, one.labels)


def _few(names: Sequence[str]) -> str:
    """Return ``a,b,c + 2 more...``, as kubectl shortens lists in a table."""
    more = f" + {len(names) - FEW} more..." if len(names) > FEW else ""
    return f"{','.join(names[:FEW])}{more}" or NONE


PODS: Final = Kind(
    "pod", KIND_NAMES["pod"], pod_row.COLUMNS, _pods, pod_row.WIDE_COLUMNS, namespaced=True, fields=POD_FIELDS
)
EVENTS: Final = Kind(
    "event",
    KIND_NAMES["event"],
    event_row.COLUMNS,
    _events,
    event_row.WIDE_COLUMNS,
    namespaced=True,
    fields=EVENT_FIELDS,
)
KINDS: Final = (
    PODS,
    Kind("node", KIND_NAMES["node"], node_row.COLUMNS, _nodes, node_row.WIDE_COLUMNS, fields=NODE_FIELDS),
    EVENTS,
    Kind("image", KIND_NAMES["image"], ("REPOSITORY", "TAG", "IMAGE ID", "SIZE"), _images, ("PINNED",)),
    Kind("volume", KIND_NAMES["volume"], ("POD", "NAME", "KIND", "STATE"), _volumes, namespaced=True),
    Kind("configmap", KIND_NAMES["configmap"], ("NAME", "KEYS", "USED BY", "MANIFEST"), _configmaps, namespaced=True),
    Kind("secret", KIND_NAMES["secret"], ("NAME", "TYPE", "KEYS", "USED BY", "MANIFEST"), _secrets, namespaced=True),
)


def kind_of(word: str) -> Kind | None:
    """Return the kind of that name."""
    return next((kind for kind in KINDS if word in kind.names), None)
