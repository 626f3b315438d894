"""The topology manager's policies: from the hints of all resources to the NUMA nodes of a container or pod, or none."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from trikubelet.core.topology.hints import IMPOSSIBLE, NO_PREFERENCE, nodes_of
from trikubelet.core.topology.merge import merge, preferred
from trikubelet.core.topology.refusal import TOPOLOGY_AFFINITY, Refused

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.core.topology.hints import Hint, Hints
    from trikubelet.core.topology.merge import Nodes


class TopologyPolicy(Enum):
    """The values of topologyManagerPolicy."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA_NODE = "single-numa-node"


class TopologyScope(Enum):
    """The values of topologyManagerScope: nodes are chosen for each container, or once for the pod."""

    CONTAINER = "container"
    POD = "pod"


REFUSED: Final = Refused(TOPOLOGY_AFFINITY, "Resources cannot be allocated with Topology locality")


@dataclass(frozen=True, slots=True)
class Affinity:
    """The chosen NUMA nodes; none if any will do. ``is_preferred``: no smaller set of nodes could give the
    resources."""

    nodes: frozenset[int] = frozenset()
    is_preferred: bool = True


def affinity(policy: TopologyPolicy, answers: Iterable[Hints | None], nodes: Nodes) -> Affinity | Refused:
    """Return the nodes for the resources that gave these answers: None stands for no preference, an empty answer for an
    impossible request."""
    if policy is TopologyPolicy.NONE:
        return Affinity(is_preferred=False)
    found = [NO_PREFERENCE if hints is None else hints or IMPOSSIBLE for hints in answers]
    if policy is TopologyPolicy.BEST_EFFORT:
        best = merge(found, nodes)
        return Affinity(nodes_of(best.mask or 0), best.is_preferred)
    if policy is TopologyPolicy.SINGLE_NUMA_NODE:
        found = [tuple(filter(_is_single, hints)) for hints in found]
    agreed = preferred(found, nodes)
    if agreed is None:
        return REFUSED
    # All nodes of a machine with one node are as good as any.
    is_any = policy is TopologyPolicy.SINGLE_NUMA_NODE and agreed == nodes.all
    return Affinity() if is_any else Affinity(nodes_of(agreed))


def _is_single(hint: Hint) -> bool:
    return hint.is_preferred and (hint.mask is None or hint.mask.bit_count() == 1)
