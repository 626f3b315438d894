"""The CPUs that a container or a pod gets for itself, by its spec."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from trikubelet.core.qos import GUARANTEED, qos_class
from trikubelet.core.topology.pod_sum import pod_sum
from trikubelet.model import quantity

if TYPE_CHECKING:
    from trikubelet.model import k8s


def has_pod_level_resources(pod: k8s.Pod) -> bool:
    """True if the pod as a whole requests or limits resources."""
    own = pod.spec.resources
    return own is not None and bool(own.requests or own.limits)


def exclusive_count(pod: k8s.Pod, container: k8s.Container) -> int:
    """Return the number of CPUs that the container gets for itself; 0 if it runs on the shared pool. Only containers of
    Guaranteed pods that request a whole number of CPUs get any. (With pod-level resources the pod's amount decides its
    class, so a container of it would take CPUs that the pod has not requested.)"""
    if has_pod_level_resources(pod) or qos_class(pod) != GUARANTEED:
        return 0
    return whole_cpus(container.resources)


def pod_count(pod: k8s.Pod) -> int:
    """Return the number of CPUs that all containers of the pod get for themselves, at the time when they need most."""
    return pod_sum(pod, lambda container: exclusive_count(pod, container))


def whole_cpus(resources: k8s.ResourceRequirements | None) -> int:
    """Return the requested number of CPUs if it is whole, else 0. A limit without a request is one."""
    if resources is None:
        return 0
    with suppress(ValueError):  # an invalid amount is rejected elsewhere
        amount = quantity.parse(resources.requests.get("cpu", resources.limits.get("cpu", 0)))
        if amount.denominator == 1:
            return int(amount)
    return 0
