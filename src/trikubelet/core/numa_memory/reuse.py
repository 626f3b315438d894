"""The memory of ended init containers, which later containers of their pod take over."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from trikubelet.core.names import all_containers
from trikubelet.core.restarts import is_sidecar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.core.numa_memory.state import Blocks
    from trikubelet.model import k8s

Reusable = dict[tuple[tuple[int, ...], str], int]
"""Bytes by NUMA nodes and resource."""


def reusable(pod: k8s.Pod, container: str, blocks: Mapping[str, Blocks]) -> Reusable:
    """Return the memory that the container may take over. Only the same nodes can give it again."""
    found: defaultdict[tuple[tuple[int, ...], str], int] = defaultdict(int)
    for name in _earlier_init_containers(pod, container):
        for block in blocks.get(name, ()):
            found[block.nodes, block.resource] += block.size_bytes
    return dict(found)


def taken_over(pod: k8s.Pod, container: str, blocks: Mapping[str, Blocks]) -> dict[str, Blocks]:
    """Return the rest of the blocks of init containers after the container took over what it can, first from the first
    one. ``blocks``: of the pod's containers, also of this one."""
    missing = {(block.nodes, block.resource): block.size_bytes for block in blocks[container]}
    left: dict[str, Blocks] = {}
    for name in _earlier_init_containers(pod, container):
        shrunk = []
        for block in blocks.get(name, ()):
            taken = min(block.size_bytes, missing.get((block.nodes, block.resource), 0))
            if taken:
                missing[block.nodes, block.resource] -= taken
            shrunk.append(replace(block, size_bytes=block.size_bytes - taken))
        if shrunk:
            left[name] = tuple(shrunk)
    return left


def _earlier_init_containers(pod: k8s.Pod, container: str) -> list[str]:
    """Return the names of the ordinary init containers that end before the container starts."""
    names = [one.name for one in all_containers(pod)]
    earlier = set(names[: names.index(container)])
    return [one.name for one in pod.spec.init_containers if one.name in earlier and not is_sidecar(one)]
