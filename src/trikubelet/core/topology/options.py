"""The options of the topology manager (topologyManagerPolicyOptions), checked as upstream checks them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trikubelet.core.topology.option_values import parse_boolean

if TYPE_CHECKING:
    from collections.abc import Mapping

CLOSEST: Final = "prefer-closest-numa-nodes"
NODES_MAX: Final = "max-allowable-numa-nodes"
_NODES_MAX_DEFAULT: Final = 8


@dataclass(frozen=True, slots=True)
class TopologyOptions:
    """The values of the options. ``nodes_max``: the most NUMA nodes with which the agent starts."""

    prefers_closest: bool = False
    nodes_max: int = _NODES_MAX_DEFAULT


def topology_options(given: Mapping[str, str]) -> TopologyOptions:
    """Return the options. Raises ValueError with upstream's text."""
    prefers_closest, nodes_max = False, _NODES_MAX_DEFAULT
    for name, text in sorted(given.items()):
        if name == CLOSEST:
            prefers_closest = parse_boolean(name, text)
        elif name == NODES_MAX:
            nodes_max = _nodes_max(text)
        else:
            raise ValueError(f'unknown Topology Manager Policy option: "{name}"')
    return TopologyOptions(prefers_closest, nodes_max)


def check_nodes(options: TopologyOptions, nodes: int) -> None:
    """Raise ValueError if the machine has more NUMA nodes than the options allow."""
    if nodes > options.nodes_max:
        raise ValueError(f"unsupported on machines with more than {options.nodes_max} NUMA Nodes")


def _nodes_max(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise ValueError(f'unable to convert policy option to integer "{NODES_MAX}": invalid value "{text}"') from None
    if value < _NODES_MAX_DEFAULT:
        raise ValueError(f'the minimum value of "{NODES_MAX}" should not be less than {_NODES_MAX_DEFAULT}')
    return value
