"""A trial of a pod's needs, without asking a plugin: it tells if the node can meet all of them now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.devices.choice import Open, chosen
from trikubelet.core.devices.decision import Refused, decide
from trikubelet.core.devices.needs import needs, reusable
from trikubelet.model.devices import Held

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from trikubelet.model.devices import Holder, Resource
    from trikubelet.model.k8s import Pod


def refusal(
    pod: Pod,
    inventory: Mapping[str, Resource],
    holdings: Mapping[Holder, Held],
    resources: Collection[str],
    awaited: Collection[str] = (),
) -> str:
    """Return why the pod cannot have its devices now, in upstream's words; "" if it can, as far as the node knows: its
    plugins are not asked. ``resources``: those that only a plugin can bring; ``awaited``: those of them whose plugins
    are away and may return, which is no refusal. Raises ValueError for an amount that is none."""
    held = dict(holdings)
    for need in needs(pod, resources):
        match decide(need, inventory, held, reusable=reusable(pod, need.holder, held)):
            case Refused(message=message) if need.holder.resource not in awaited:
                return message
            case Open() as choice:
                held[need.holder] = Held(dict.fromkeys(chosen(choice), frozenset()))
            case _:
                pass
    return ""
