"""What a pod asks for as a whole, resource by resource: what admission counts, and what its status reports."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from trikubelet.core.manifest.pod_requests import is_pod_level, together
from trikubelet.core.names import all_containers
from trikubelet.model import quantity

if TYPE_CHECKING:
    from trikubelet.model.k8s import Pod


def requests(pod: Pod) -> dict[str, int]:
    """What the pod asks for, its overhead with it, without what it asks nothing of; millicores, bytes or pieces.
    Raises ValueError for an amount that is none."""
    spec = pod.spec
    own = spec.resources.requests if spec.resources is not None else {}
    names = {name for c in all_containers(pod) if c.resources is not None for name in c.resources.requests}
    found = {}
    for name in {*names, *own, *spec.overhead}:
        exact = quantity.parse(own[name]) if name in own and is_pod_level(name) else together(spec, name)
        exact += quantity.parse(spec.overhead[name]) if name in spec.overhead else Fraction(0)
        found[name] = counted(name, exact)
    return {name: amount for name, amount in found.items() if amount}


def promised(pod: Pod) -> dict[str, int]:
    """What a pod that is here was promised: nothing, where its amounts are none, for it must not keep others out."""
    try:
        return requests(pod)
    except ValueError:
        return {}


def counted(resource: str, amount: Fraction) -> int:
    """An exact amount in millicores, bytes or pieces, rounded up."""
    return ceil(amount * 1000) if resource == "cpu" else ceil(amount)
