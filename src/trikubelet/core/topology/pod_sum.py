"""The amount that a pod needs of something, from the amounts of its containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.restarts import is_sidecar

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.model import k8s


def pod_sum(pod: k8s.Pod, amount: Callable[[k8s.Container], int]) -> int:
    """Return the largest amount that is needed at one time: an ordinary init container runs next to the sidecars before
    it, regular containers run next to all sidecars."""
    most = beside = 0
    for container in pod.spec.init_containers:
        if is_sidecar(container):
            beside += amount(container)
            most = max(most, beside)
        else:
            most = max(most, beside + amount(container))
    return max(most, beside + sum(map(amount, pod.spec.containers)))
