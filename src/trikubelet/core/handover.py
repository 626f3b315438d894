"""The things of ended init containers that later containers of their pod take over: devices, CPUs, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from trikubelet.core.names import all_containers
from trikubelet.core.restarts import is_sidecar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from trikubelet.model import k8s

Thing = TypeVar("Thing")


def handed_over(pod: k8s.Pod, container: str, held: Mapping[str, AbstractSet[Thing]]) -> frozenset[Thing]:
    """Return the things that the container may take over: those of the ordinary init containers before it, which end
    before it starts, except for those that a sidecar or a regular container took over already. ``held``: the things of
    each container that has some."""
    found: set[Thing] = set()
    ordinary = {one.name for one in pod.spec.init_containers if not is_sidecar(one)}
    names = [one.name for one in all_containers(pod)]
    earlier = names[: names.index(container)]
    for name in names:
        if name not in held or name == container:
            continue
        if name not in ordinary:
            found -= held[name]
        elif name in earlier:
            found |= held[name]
    return frozenset(found)
