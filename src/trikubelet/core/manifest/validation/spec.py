"""The spec's fields about the pod as a whole: policies, times, priorities, gates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.manifest.problem import (
    duplicate,
    forbidden,
    invalid,
    named,
    one_of,
)
from trikubelet.core.manifest.validation.metadata import label_problems
from trikubelet.core.manifest.validation.rules import INT32_MAX
from trikubelet.model import names

if TYPE_CHECKING:
    from trikubelet.core.manifest.problem import Problems
    from trikubelet.model.k8s import PodSpec

RESTART_POLICIES = ("Always", "OnFailure", "Never")


def spec_problems(spec: PodSpec) -> Problems:
    """Yield the problems of the spec's own fields; scheduling, network, security, resources, volumes and containers are
    checked elsewhere."""
    yield from one_of("spec.restartPolicy", spec.restart_policy, RESTART_POLICIES)
    deadline = spec.active_deadline_seconds
    if deadline is not None and not 1 <= deadline <= INT32_MAX:
        yield invalid("spec.activeDeadlineSeconds", deadline, f"must be between 1 and {INT32_MAX}")
    yield from one_of("spec.preemptionPolicy", spec.preemption_policy, ("Never", "PreemptLowerPriority"))
    yield from _named_things(spec)
    yield from label_problems("spec.nodeSelector", spec.node_selector)
    yield from _readiness_gates(spec)
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
        ("nodeName", spec.node_name),
    ):
        if name:
            yield from named(f"spec.{field}", name, names.subdomain_problem(name))


def _readiness_gates(spec: PodSpec) -> Problems:
    for n, gate in enumerate(spec.readiness_gates):
        path = f"spec.readinessGates[{n}].conditionType"
        yield from named(path, gate.condition_type, names.qualified_name_problem(gate.condition_type))


def _claims(spec: PodSpec) -> Problems:
    """Yield the problems of resource claims: each needs a name and exactly one source."""
    seen: set[str] = set()
    for n, claim in enumerate(spec.resource_claims):
        path = f"spec.resourceClaims[{n}]"
        yield from named(f"{path}.name", claim.name, names.label_problem(claim.name))
        if claim.name in seen:
            yield duplicate(f"{path}.name", claim.name)
        seen.add(claim.name)
        for field, name in (
            ("resourceClaimName", claim.resource_claim_name),
            ("resourceClaimTemplateName", claim.resource_claim_template_name),
        ):
            if name:
                yield from named(f"{path}.{field}", name, names.subdomain_problem(name))
        given = bool(claim.resource_claim_name) + bool(claim.resource_claim_template_name)
        if given != 1:
            yield invalid(path, {}, "must have either resourceClaimName or resourceClaimTemplateName")
