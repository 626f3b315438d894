"""What kubectl may ask a node without a cluster for: one record for each kind of things.

A resource is what discovery says of it, the columns of its table, the fields it can be selected by, and where its
things come from. ``app/kubectl_resources.py`` makes them, since columns are the command line's; everything else in this
package works on any of them.
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
    """The API's Namespace. Nobody makes or removes one here: it is there while something is in it."""

    api_version: str = "v1"
    kind: str = "Namespace"
    metadata: k8s.ObjectMeta
    status: NamespaceStatus = NamespaceStatus()


Thing = k8s.Pod | k8s.Event | k8s.Node | Namespace
"""An object of the API, as far as this node has any."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of things. ``name`` is its part of the path, ``things`` asks for all there are, and ``look_seconds``
    says how long a watch may go without asking again. ``cells`` are those of a thing at a time (nanoseconds since the
    epoch): the columns', then the ``wide`` ones'. ``fields``: what a field of a thing is, by the path selectors name it
    by. ``is_next_life`` takes a thing as it was and as it is now under the same UID: if true, it is shown as removed
    and added again. ``categories``: names for several kinds at once, of which it is one; ``parts``: what is below one
    thing's path, and the methods it is asked with."""

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
