"""Feature gates: which there are, what they are by default, and what an operator made of them.

The names and defaults are those of the followed release (``model.upstream``), from the generated history of all gates
(``model.gate_history``). A gate that has no effect in this agent is accepted all the same, so that a node's
configuration can be carried over. A gate of another release is refused with the release that removed it or brings it, a
name that Kubernetes never had with the nearest known one, and so is switching a gate that is locked. ``AllAlpha`` and
``AllBeta`` switch a whole stage; a gate named beside them keeps what it was given.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from msgspec import field

from trikubelet.model.faults import nearest
from trikubelet.model.frozen import Frozen
from trikubelet.model.gate_history import HISTORY
from trikubelet.model.upstream import FOLLOWED, minor_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.model.upstream import Minor


class Stage(Enum):
    """How far a feature has come."""

    ALPHA = "Alpha"
    BETA = "Beta"
    GA = "GA"
    DEPRECATED = "Deprecated"


class Gate(Frozen):
    """One feature. ``locked``: its default cannot be changed."""

    name: str
    stage: Stage
    default: bool
    locked: bool = False


_REMOVED: Final = "removed"
_STAGES: Final = {stage.value.lower(): stage for stage in Stage}


def _gate(name: str, written: str) -> Gate:
    """A gate in one stage of its history: ``1.36:beta:off``."""
    _, stage, default = written.split(":")
    return Gate(name, _STAGES[stage], default.startswith("on"), default.endswith("!"))


_HISTORY: Final = {name: stages for name, *stages in map(str.split, HISTORY.split("\n")[1:-1])}


def gates_of(version: Minor) -> dict[str, Gate]:
    """The gates that a kubelet of a minor version knows, by their names."""
    found: dict[str, Gate] = {}
    for name, stages in _HISTORY.items():
        reached = [one for one in stages if minor_of(one) <= version]
        if reached and not reached[-1].endswith(_REMOVED):
            found[name] = _gate(name, reached[-1])
    return found


GATES: Final = gates_of(FOLLOWED)
"""Every gate of the followed release by its name."""

_ALL: Final = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}


class FeatureGates(Frozen):
    """The state of each feature on this node. ``given``: the operator's settings, by gate."""

    given: Mapping[str, bool] = field(default_factory=dict)

    def enabled(self, name: str) -> bool:
        """True if a feature is on. Raises KeyError for an unknown name, which is a bug in the agent."""
        gate = GATES[name]
        if name in self.given:
            return self.given[name]
        for group, stage in _ALL.items():
            if gate.stage is stage and group in self.given:
                return self.given[group]
        return gate.default

    def states(self) -> dict[tuple[str, str], bool]:
        """Each gate with its stage, as upstream's metric has it (``ALPHA``, nothing for a finished one), and whether it
        is on."""
        return {
            (gate.name, "" if gate.stage is Stage.GA else gate.stage.value.upper()): self.enabled(gate.name)
            for gate in GATES.values()
        }


def gate_problem(name: str, value: bool) -> tuple[str, str]:
    """Return the problem of setting this gate so, and the remedy; two empty strings if there is none."""
    if name in _ALL:
        return "", ""
    gate = GATES.get(name)
    if gate is None:
        return f"unrecognized feature gate: {name}{_of_another_release(name)}", _remedy(name)
    if gate.locked and value is not gate.default:
        return f"cannot set feature gate {name} to {_go(value)}, feature is locked to {_go(gate.default)}", "remove it"
    return "", ""


def _of_another_release(name: str) -> str:
    """Why a gate that Kubernetes has, or had, is not known: ``: Kubernetes 1.37 removed it``. Empty for other names."""
    stages = _HISTORY.get(name, ())
    for stage in stages:
        if stage.endswith(_REMOVED) and minor_of(stage) <= FOLLOWED:
            return f": Kubernetes {minor_of(stage)} removed it"
    return f": Kubernetes {minor_of(stages[0])} brings it" if stages else ""


def _remedy(name: str) -> str:
    near = "" if name in _HISTORY else nearest(name, (*GATES, *_ALL))
    return near or "remove it"


def parse_gates(text: str) -> dict[str, bool]:
    """Return ``A=true,B=false`` as a mapping. Raises ValueError with everything that is wrong; names are checked only
    then, because otherwise the reader of the mapping does that."""
    gates: dict[str, bool] = {}
    wrong: list[str] = []
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not part.strip():
            continue
        if not equals:
            wrong.append(f"missing bool value for {name}: write {name}=true or {name}=false")
        elif value.lower() not in _BOOLS:
            wrong.append(f"invalid value of {name}: {value!r}: write true or false")
        else:
            gates[name] = _BOOLS[value.lower()]
    if wrong:
        raise ValueError("; ".join(wrong + [problem for gate in gates.items() if (problem := gate_problem(*gate)[0])]))
    return gates


_BOOLS: Final = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


def _go(value: bool) -> str:
    return "true" if value else "false"
