"""What a pod calls itself: its host name and, with a subdomain, its full name in the cluster's DNS.

Used by the sandbox's configuration and by the managed hosts file, which must agree. ``hostnameOverride`` is taken as it
stands and has no domain; a pod on the host network has the node's name and no say in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from trikubelet.core.containers.facts import NodeFacts
    from trikubelet.model.k8s import Pod

LABEL_CHARS_MAX = 63
KERNEL_CHARS_MAX = 64


class PodName(NamedTuple):
    """``short`` is one DNS label (the node's name on the host network); ``full`` is empty without a subdomain."""

    short: str
    full: str


def pod_name(pod: Pod, facts: NodeFacts) -> PodName:
    """The pod's names as the hosts file lists them."""
    spec = pod.spec
    if spec.hostname_override:
        return PodName(spec.hostname_override, "")
    if spec.host_network:
        return PodName(facts.node_name, "")
    short = spec.hostname or pod.metadata.name[:LABEL_CHARS_MAX].rstrip("-.")
    if not spec.subdomain:
        return PodName(short, "")
    return PodName(short, f"{short}.{spec.subdomain}.{pod.metadata.namespace}.svc.{facts.cluster_domain}".rstrip("."))


def kernel_hostname(pod: Pod, facts: NodeFacts) -> str:
    """What ``hostname`` prints in the pod. Raises ValueError when the full name was asked for and the kernel cannot
    hold it."""
    short, full = pod_name(pod, facts)
    if not pod.spec.set_hostname_as_fqdn or not full:
        return short
    if len(full) > KERNEL_CHARS_MAX:
        raise ValueError(
            f"failed to construct FQDN from Pod hostname and cluster domain, FQDN {full} is too long"
            f" ({KERNEL_CHARS_MAX} characters is the max, {len(full)} characters requested)"
        )
    return full
