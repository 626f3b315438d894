"""Mirror pods: how static pods are shown to those who only know the API server.

A static pod belongs to its manifest; the API server is given an object that looks like it, so that it can be listed,
counted and watched. The mirror is marked with the hash of what it mirrors and belongs to the Node, with which it goes.
It is a picture and nothing else: whoever deletes or changes it stops nothing, and gets another one. One decision per
name; the task that carries it out is ``status/mirror.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from trikubelet.core.names import CONFIG_HASH, CONFIG_MIRROR, is_mirror, status_uid
from trikubelet.core.pod_status.phase import TERMINAL
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Create:
    """Create this object."""

    pod: k8s.Pod


@dataclass(frozen=True, slots=True)
class Delete:
    """Take this object away at once."""

    pod: k8s.Pod


def mirror_due(
    static: k8s.Pod | None,
    seen: k8s.Pod | None,
    node: k8s.Node,
    may_live: Callable[[str], bool],
    phase_of: Callable[[str], str],
    begins_again: Callable[[str], bool] = lambda _: False,
) -> Create | Delete | None:
    """What is to be done about the mirror of one name. ``static``: the pod a manifest wants there; ``seen``: the
    object the API server has; ``may_live``: whether anything of the static pod of that hash may still run, in which
    case its mirror is kept to show its end; ``phase_of``: the phase it was last found in, "" before that;
    ``begins_again``: whether it is wanted again while its earlier instance is not gone yet.

    A manifest that was taken away and brought back has a second instance under the same hash, and a mirror that has
    shown the end of the first can show nothing else: it is replaced. For the same reason none is made before the first
    is gone, whose end it would be given."""
    if seen is None:
        return Create(mirror_of(static, node)) if static is not None and not begins_again(_hash(static)) else None
    if not is_mirror(seen):
        return None  # somebody's own pod of that name: it is not ours to take away, and theirs came first
    if seen.metadata.deletion_timestamp:
        return Delete(seen)
    shown = status_uid(seen)
    if static is not None and shown == _hash(static):
        lives_again = phase_of(shown) not in ("", *TERMINAL)
        return Delete(seen) if lives_again and seen.status is not None and seen.status.phase in TERMINAL else None
    return None if may_live(shown) else Delete(seen)


def mirror_of(static: k8s.Pod, node: k8s.Node) -> k8s.Pod:
    """The object that shows a static pod. The server refuses to a node any that does not belong to that node."""
    meta, owner = static.metadata, node.metadata
    of_node = k8s.OwnerReference(api_version="v1", kind="Node", name=owner.name, uid=owner.uid, controller=True)
    shown = k8s.ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        labels=meta.labels,
        annotations={**meta.annotations, CONFIG_MIRROR: _hash(static)},
        owner_references=(of_node,),
    )
    return k8s.Pod(
        api_version="v1", kind="Pod", metadata=shown, spec=replace(static.spec, node_name=owner.name), status=None
    )


def _hash(static: k8s.Pod) -> str:
    return static.metadata.annotations.get(CONFIG_HASH, static.metadata.uid)
