"""The API server's defaults, for pods that do not pass through one.

Containers are in ``container_defaults``, volumes in ``volume_defaults``. Applying defaults twice changes nothing.
Invalid quantities are left alone here, and nothing is derived from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from trikubelet.core.manifest.container_defaults import with_container_defaults, with_host_ports
from trikubelet.core.manifest.pod_requests import with_pod_requests
from trikubelet.core.manifest.volume_defaults import with_volume_defaults
from trikubelet.model import k8s

if TYPE_CHECKING:
    from trikubelet.model.k8s import Pod

GRACE_SECONDS = 30
PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""The classes that every cluster has; with an API server, admission resolves them."""


def with_defaults(pod: Pod) -> Pod:
    """Return the pod as the API server would have stored it."""
    spec = pod.spec
    init = tuple(with_container_defaults(container) for container in spec.init_containers)
    regular = tuple(with_container_defaults(container) for container in spec.containers)
    ephemeral = tuple(with_container_defaults(container) for container in spec.ephemeral_containers)
    if spec.host_network:
        init = tuple(with_host_ports(container) for container in init)
        regular = tuple(with_host_ports(container) for container in regular)
    changes: dict[str, Any] = {
        "init_containers": init,
        "containers": regular,
        "ephemeral_containers": ephemeral,
        "volumes": tuple(with_volume_defaults(volume) for volume in spec.volumes),
        "restart_policy": spec.restart_policy or "Always",
        "dns_policy": spec.dns_policy or "ClusterFirst",
        "scheduler_name": spec.scheduler_name or "default-scheduler",
        "security_context": spec.security_context or k8s.PodSecurityContext(),
        # Two names of one field; older tools still read the older one.
        "service_account_name": spec.service_account_name or spec.service_account,
        "service_account": spec.service_account_name or spec.service_account,
    }
    if spec.termination_grace_period_seconds is None:
        changes["termination_grace_period_seconds"] = GRACE_SECONDS
    elif spec.termination_grace_period_seconds < 0:
        changes["termination_grace_period_seconds"] = 1  # the API server's value for negative ones
    if spec.enable_service_links is None:
        changes["enable_service_links"] = True
    if spec.priority is None and spec.priority_class_name in PRIORITIES:
        changes["priority"] = PRIORITIES[spec.priority_class_name]
    return replace(pod, spec=with_pod_requests(replace(spec, **changes)))
