"""The resources that kubectl may read on a node without a cluster: one record for each kind.

A resource has its discovery data, its table's columns, its selectable fields, and a source of objects.
``app/kubectl_resources.py`` makes the records, because columns belong to the command line; the rest of this package
works on any of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from trikubelet.core.kubectl.fields import Fields


class NamespaceStatus(msgspec.Struct, frozen=True):
    """The API's NamespaceStatus."""

    phase: str = "Active"


class Namespace(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The API's Namespace. They cannot be created or deleted here: one exists while an object is in it."""

    api_version: str = "v1"
    kind: str = "Namespace"
    metadata: k8s.ObjectMeta
    status: NamespaceStatus = NamespaceStatus()


Thing = k8s.Pod | k8s.Event | k8s.Node | Namespace
"""An object of the API, of the kinds that this node has."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of objects. ``name``: its part of the path; ``things``: returns all objects; ``look_seconds``: time
    between two looks of a watch. ``cells``: returns those of an object at a time (nanoseconds since the epoch): the
    columns', then the ``wide`` ones'. ``fields``: values of an object's fields, by the path that selectors use.
    ``is_next_life``: takes an object before and now under the same UID; if true, it is shown as removed and added
    again. ``categories``: names for several kinds at once, including this one; ``parts``: paths below an object's, and
    their methods."""

    name: str
    singular: str
    kind: str
    short: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Callable[[Any, int], Sequence[str]]
    things: Callable[[], Awaitable[Sequence[Thing]]]
    look_seconds: float
    fields: Fields
    is_next_life: Callable[[Any, Any], bool] = lambda _was, _now: False
    wide: tuple[str, ...] = ()
    namespaced: bool = True
    categories: tuple[str, ...] = ()
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
