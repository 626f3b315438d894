"""Mirror pods: the objects that represent static pods in the API server.

A static pod is defined by its manifest; the API server gets an object that looks like it, so that it can be listed,
counted and watched. The mirror is marked with the hash of its static pod and owned by the Node, with which it is
deleted. It is only an image: deleting or changing it stops nothing, and the agent creates another one. There is one
decision per name; the task that carries it out is ``status/mirror.py``.
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
    """Delete this object at once, without grace."""

    pod: k8s.Pod


def mirror_due(
    static: k8s.Pod | None,
    seen: k8s.Pod | None,
    node: k8s.Node,
    may_live: Callable[[str], bool],
    phase_of: Callable[[str], str],
    begins_again: Callable[[str], bool] = lambda _: False,
) -> Create | Delete | None:
    """Return the change that the mirror of one name needs. ``static``: the pod that a manifest defines; ``seen``: the
    API server's object; ``may_live``: true for the hash of a static pod that may still run, whose mirror is kept to
    show its end; ``phase_of``: the last phase of a static pod, "" before the first; ``begins_again``: true if a static
    pod waits for its earlier instance to end.

    A manifest that was removed and brought back starts a second instance with the same hash. A mirror that showed the
    first one's end cannot show another phase, so it is replaced. For the same reason no mirror is created before the
    first instance is gone: it would get that one's end."""
    if seen is None:
        return Create(mirror_of(static, node)) if static is not None and not begins_again(_hash(static)) else None
    if not is_mirror(seen):
        return None  # a pod of that name that the agent did not create; it came first and is not ours to delete
    if seen.metadata.deletion_timestamp:
        return Delete(seen)
    shown = status_uid(seen)
    if static is not None and shown == _hash(static):
        lives_again = phase_of(shown) not in ("", *TERMINAL)
        return Delete(seen) if lives_again and seen.status is not None and seen.status.phase in TERMINAL else None
    return None if may_live(shown) else Delete(seen)


def mirror_of(static: k8s.Pod, node: k8s.Node) -> k8s.Pod:
    """Return the mirror of a static pod. It names the node as its owner, because the API server rejects others from a
    node."""
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
