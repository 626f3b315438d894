"""A pod's host names, and the managed /etc/hosts that must agree with them.

Its host name and, with a subdomain, its full name in the cluster's DNS are used for the sandbox's configuration and for
the hosts file. ``hostnameOverride`` is used as given and has no domain; a pod on the host network always has the node's
name. The file has these names, the node's entries on the host network, and the pod's aliases, exactly in upstream's
layout, because programs parse it. ``pods.container_configs`` writes it through the ContainerFiles port, and ``mounts``
mounts it unless a container mounts its own.
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
    """Return the pod's names as the hosts file lists them."""
    spec = pod.spec
    if spec.hostname_override:
        return PodName(spec.hostname_override, "")
    if spec.host_network:
        return PodName(facts.node_name, "")
    short = spec.hostname or pod.metadata.name[:LABEL_CHARS_MAX].rstrip("-.")
    if not spec.subdomain:
        return PodName(short, "")
    # Without a cluster domain the name ends in a dot, like upstream's: programs compare `hostname -f` with it.
    return PodName(short, f"{short}.{spec.subdomain}.{pod.metadata.namespace}.svc.{facts.cluster_domain}")


def kernel_hostname(pod: Pod, facts: NodeFacts) -> str:
    """Return the output of ``hostname`` in the pod. Raises ValueError if the full name is requested and longer than the
    kernel allows."""
    short, full = pod_name(pod, facts)
    if not pod.spec.set_hostname_as_fqdn or not full:
        return short
    if len(full) > KERNEL_CHARS_MAX:
        raise ValueError(
            f"failed to construct FQDN from pod hostname and cluster domain, FQDN {full} is too long"
            f" ({KERNEL_CHARS_MAX} characters is the max, {len(full)} characters requested)"
        )
    return full


HEADER = "# Kubernetes-managed hosts file."
HOST_NETWORK_HEADER = "# Kubernetes-managed hosts file (host network)."
ALIASES_HEADER = "# Entries added by HostAliases."
_LOCAL = (
    "127.0.0.1\tlocalhost",
    "::1\tlocalhost ip6-localhost ip6-loopback",
    "fe00::0\tip6-localnet",
    "fe00::0\tip6-mcastprefix",
    "fe00::1\tip6-allnodes",
    "fe00::2\tip6-allrouters",
)


def hosts_file(pod: Pod, ips: tuple[str, ...], facts: NodeFacts, node_hosts: str) -> str:
    """Return the content of the pod's /etc/hosts. ``node_hosts`` is the node's own, which host-network pods share;
    ``ips`` are the pod's addresses of either family, each listed with its names."""
    if pod.spec.host_network:
        lines = [HOST_NETWORK_HEADER, node_hosts.rstrip("\n")]
    else:
        short, full = pod_name(pod, facts)
        own = f"{full}\t{short}" if full else short
        lines = [HEADER, *_LOCAL, *(f"{ip}\t{own}" for ip in ips)]
    if pod.spec.host_aliases:
        lines += ["", ALIASES_HEADER]
        lines += [f"{alias.ip}\t" + "\t".join(alias.hostnames) for alias in pod.spec.host_aliases]
    return "\n".join(lines) + "\n"
