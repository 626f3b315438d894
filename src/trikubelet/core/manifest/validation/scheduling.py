"""Fields for schedulers: affinity, topology spread, tolerations. A static pod is on its node already, but the node
checks its affinity, and tools that read the mirror expect values that an API server accepts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.manifest.problem import (
    duplicate,
    forbidden,
    invalid,
    named,
    one_of,
    required,
    unsupported,
)
from trikubelet.core.manifest.validation.selectors import selector_problems, term_problems
from trikubelet.model import names

if TYPE_CHECKING:
    from trikubelet.core.manifest.problem import Problems
    from trikubelet.model.k8s import (
        LabelSelector,
        NodeAffinity,
        PodAffinity,
        PodAffinityTerm,
        PodAntiAffinity,
        PodSpec,
        Toleration,
        TopologySpreadConstraint,
    )

WEIGHT_MAX = 100
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS = ("Exists", "Equal")
_POLICIES = ("Honor", "Ignore")
_WHEN = ("DoNotSchedule", "ScheduleAnyway")
_REQUIRED, _PREFERRED = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred"))


def scheduling_problems(spec: PodSpec) -> Problems:
    """Yield the problems of a pod's placement."""
    for n, toleration in enumerate(spec.tolerations):
        yield from _toleration(f"spec.tolerations[{n}]", toleration)
    if (affinity := spec.affinity) is not None:
        if affinity.node_affinity is not None:
            yield from _nodes("spec.affinity.nodeAffinity", affinity.node_affinity)
        for field, pods in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
            if pods is not None:
                yield from _pods(f"spec.affinity.{field}", pods)
    yield from _spread(spec.topology_spread_constraints)


def _toleration(path: str, toleration: Toleration) -> Problems:
    key, operator, effect = toleration.key, toleration.operator or "Equal", toleration.effect
    yield from one_of(f"{path}.operator", toleration.operator, _OPERATORS)
    yield from one_of(f"{path}.effect", effect, _EFFECTS)
    if key and (problem := names.qualified_name_problem(key)):
        yield invalid(f"{path}.key", key, problem)
    if not key and operator != "Exists":
        yield invalid(f"{path}.operator", operator, 'must be "Exists" where no key is given, which means all keys')
    if operator == "Exists" and toleration.value:
        yield invalid(f"{path}.value", toleration.value, 'must be empty where the operator is "Exists"')
    if operator == "Equal" and (problem := names.label_value_problem(toleration.value)):
        yield invalid(f"{path}.value", toleration.value, problem)
    if toleration.toleration_seconds is not None and effect != "NoExecute":
        yield invalid(f"{path}.effect", effect, 'must be "NoExecute" where tolerationSeconds is set')


def _nodes(path: str, affinity: NodeAffinity) -> Problems:
    if (selector := affinity.required_during_scheduling_ignored_during_execution) is not None:
        here = f"{path}.{_REQUIRED}.nodeSelectorTerms"
        if not selector.node_selector_terms:
            yield required(here, "at least one term")
        for n, term in enumerate(selector.node_selector_terms):
            yield from term_problems(f"{here}[{n}]", term, checks_values=True)
    for n, one in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        here = f"{path}.{_PREFERRED}[{n}]"
        yield from _weight(here, one.weight)
        yield from term_problems(f"{here}.preference", one.preference, checks_values=False)


def _pods(path: str, affinity: PodAffinity | PodAntiAffinity) -> Problems:
    for n, term in enumerate(affinity.required_during_scheduling_ignored_during_execution):
        yield from _pods_of_term(f"{path}.{_REQUIRED}[{n}]", term)
    for n, one in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        here = f"{path}.{_PREFERRED}[{n}]"
        yield from _weight(here, one.weight)
        yield from _pods_of_term(f"{here}.podAffinityTerm", one.pod_affinity_term)


def _weight(path: str, weight: int) -> Problems:
    if not 1 <= weight <= WEIGHT_MAX:
        yield invalid(f"{path}.weight", weight, f"must be between 1 and {WEIGHT_MAX}")


def _pods_of_term(path: str, term: PodAffinityTerm) -> Problems:
    yield from selector_problems(f"{path}.labelSelector", term.label_selector)
    yield from selector_problems(f"{path}.namespaceSelector", term.namespace_selector)
    for n, namespace in enumerate(term.namespaces):
        if problem := names.label_problem(namespace):
            yield invalid(f"{path}.namespaces[{n}]", namespace, problem)
    yield from named(f"{path}.topologyKey", term.topology_key, names.qualified_name_problem(term.topology_key))
    yield from _keys(f"{path}.matchLabelKeys", term.match_label_keys, term.label_selector)
    yield from _keys(f"{path}.mismatchLabelKeys", term.mismatch_label_keys, term.label_selector)
    for n, key in enumerate(term.match_label_keys):
        if key in term.mismatch_label_keys:
            yield invalid(f"{path}.matchLabelKeys[{n}]", key, "is in mismatchLabelKeys too")


def _keys(path: str, keys: tuple[str, ...], selector: LabelSelector | None) -> Problems:
    """Yield the problems of keys whose values are taken from the pod itself and added to a selector."""
    if keys and selector is None:
        yield forbidden(path, "may only be set where labelSelector is")
    for n, key in enumerate(keys):
        if problem := names.qualified_name_problem(key):
            yield invalid(f"{path}[{n}]", key, problem)


def _spread(constraints: tuple[TopologySpreadConstraint, ...]) -> Problems:
    pairs = [(one.topology_key, one.when_unsatisfiable) for one in constraints]
    for n, one in enumerate(constraints):
        path = f"spec.topologySpreadConstraints[{n}]"
        if one.max_skew < 1:
            yield invalid(f"{path}.maxSkew", one.max_skew, "must be 1 or more")
        if not one.topology_key:
            yield required(f"{path}.topologyKey")
        if one.when_unsatisfiable not in _WHEN:
            yield unsupported(f"{path}.whenUnsatisfiable", one.when_unsatisfiable, _WHEN)
        if pairs[n] in pairs[n + 1 :]:
            yield duplicate(f"{path}.topologyKey", one.topology_key)
        yield from _domains(path, one)
        yield from one_of(f"{path}.nodeAffinityPolicy", one.node_affinity_policy, _POLICIES)
        yield from one_of(f"{path}.nodeTaintsPolicy", one.node_taints_policy, _POLICIES)
        yield from selector_problems(f"{path}.labelSelector", one.label_selector)
        yield from _keys(f"{path}.matchLabelKeys", one.match_label_keys, one.label_selector)


def _domains(path: str, one: TopologySpreadConstraint) -> Problems:
    if one.min_domains is None:
        return
    if one.min_domains < 1:
        yield invalid(f"{path}.minDomains", one.min_domains, "must be 1 or more")
    if one.when_unsatisfiable != "DoNotSchedule":
        yield invalid(f"{path}.minDomains", one.min_domains, 'goes with whenUnsatisfiable: "DoNotSchedule" only')
