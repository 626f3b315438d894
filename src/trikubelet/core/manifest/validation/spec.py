"""What a pod's spec says of the pod as a whole: policies, times, priorities, tolerations, gates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.manifest.problem import (
    duplicate,
    forbidden,
    invalid,
    named,
    not_negative,
    one_of,
    required,
)
from trikubelet.core.manifest.validation.metadata import label_problems
from trikubelet.core.manifest.validation.rules import INT32_MAX
from trikubelet.model import names

if TYPE_CHECKING:
    from trikubelet.core.manifest.problem import Problems
    from trikubelet.model.k8s import PodSpec, Toleration

RESTART_POLICIES = ("Always", "OnFailure", "Never")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS = ("Exists", "Equal", "Lt", "Gt")


def spec_problems(spec: PodSpec) -> Problems:
    """Everything wrong with the spec's own fields; network, security, resources, volumes and containers are checked
    elsewhere."""
    yield from one_of("spec.restartPolicy", spec.restart_policy, RESTART_POLICIES)
    yield from not_negative("spec.terminationGracePeriodSeconds", spec.termination_grace_period_seconds)
    deadline = spec.active_deadline_seconds
    if deadline is not None and not 1 <= deadline <= INT32_MAX:
        yield invalid("spec.activeDeadlineSeconds", deadline, f"must be between 1 and {INT32_MAX}")
    yield from one_of("spec.preemptionPolicy", spec.preemption_policy, ("Never", "PreemptLowerPriority"))
    yield from _named_things(spec)
    yield from label_problems("spec.nodeSelector", spec.node_selector)
    yield from _readiness_gates(spec)
    for n, toleration in enumerate(spec.tolerations):
        yield from _toleration(f"spec.tolerations[{n}]", toleration)
    if spec.os is not None:
        yield from named("spec.os.name", spec.os.name, "" if spec.os.name == "linux" else "must be linux on this node")
    yield from _claims(spec)
    for n, _ in enumerate(spec.scheduling_gates):
        yield forbidden(f"spec.schedulingGates[{n}]", "a pod that is on its node already cannot wait for a scheduler")
    if spec.ephemeral_containers:
        yield forbidden("spec.ephemeralContainers", "ephemeral containers are added to a pod that exists")


def _named_things(spec: PodSpec) -> Problems:
    for field, name in (
        ("serviceAccountName", spec.service_account_name),
        ("priorityClassName", spec.priority_class_name),
        ("runtimeClassName", spec.runtime_class_name),
        ("schedulerName", spec.scheduler_name),
    ):
        if name:
            yield from named(f"spec.{field}", name, names.subdomain_problem(name))
    for n, ref in enumerate(spec.image_pull_secrets):
        yield from named(f"spec.imagePullSecrets[{n}].name", ref.name, names.subdomain_problem(ref.name))


def _readiness_gates(spec: PodSpec) -> Problems:
    for n, gate in enumerate(spec.readiness_gates):
        path = f"spec.readinessGates[{n}].conditionType"
        yield from named(path, gate.condition_type, names.qualified_name_problem(gate.condition_type))


def _toleration(path: str, toleration: Toleration) -> Problems:
    key, operator, effect = toleration.key, toleration.operator or "Equal", toleration.effect
    yield from one_of(f"{path}.operator", toleration.operator, _OPERATORS)
    yield from one_of(f"{path}.effect", effect, _EFFECTS)
    if key and (problem := names.qualified_name_problem(key)):
        yield invalid(f"{path}.key", key, problem)
    if not key and operator != "Exists":
        yield required(f"{path}.operator", 'must be "Exists" where no key is given, which means all keys')
    if operator == "Exists" and toleration.value:
        yield invalid(f"{path}.value", toleration.value, 'must be empty where the operator is "Exists"')
    if operator == "Equal" and (problem := names.label_value_problem(toleration.value)):
        yield invalid(f"{path}.value", toleration.value, problem)
    if operator in ("Lt", "Gt") and not _is_int64(toleration.value):
        yield invalid(f"{path}.value", toleration.value, f'must be a whole number where the operator is "{operator}"')
    if toleration.toleration_seconds is not None and effect != "NoExecute":
        yield invalid(f"{path}.effect", effect, 'must be "NoExecute" where tolerationSeconds is set')


def _is_int64(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= 19 and -(2**63) <= int(text) < 2**63


def _claims(spec: PodSpec) -> Problems:
    """Resource claims: a name each, and exactly one place where the claim comes from."""
    seen: set[str] = set()
    for n, claim in enumerate(spec.resource_claims):
        path = f"spec.resourceClaims[{n}]"
        yield from named(f"{path}.name", claim.name, names.label_problem(claim.name))
        if claim.name in seen:
            yield duplicate(f"{path}.name", claim.name)
        seen.add(claim.name)
        given = bool(claim.resource_claim_name) + bool(claim.resource_claim_template_name)
        if given != 1:
            yield invalid(path, {}, "must have either resourceClaimName or resourceClaimTemplateName")
