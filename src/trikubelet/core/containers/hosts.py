"""The managed hosts file and the pod's host name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trikubelet.core.containers.facts import NodeFacts
    from trikubelet.model.k8s import Pod

HEADER = "# Kubernetes-managed hosts file."
HOST_NETWORK_HEADER = "# Kubernetes-managed hosts file (host network)."
HOSTNAME_CHARS_MAX = 63
FQDN_CHARS_MAX = 64
_LOCAL = (
    "127.0.0.1\tlocalhost",
    "::1\tlocalhost ip6-localhost ip6-loopback",
    "fe00::\tip6-localnet",
    "fe00::\tip6-mcastprefix",
    "fe00::1\tip6-allnodes",
    "fe00::2\tip6-allrouters",
)


def hostname(pod: Pod, facts: NodeFacts) -> str:
    """The pod's host name: the override, the node's own on the host network, the spec's, or the pod's name, cut to
    what a host name may have. Raises ValueError when a required full name does not fit."""
    if pod.spec.hostname_override:
        return pod.spec.hostname_override
    if pod.spec.host_network:
        return facts.node_name
    name = pod.spec.hostname or pod.metadata.name[:HOSTNAME_CHARS_MAX].rstrip("-.")
    if pod.spec.set_hostname_as_fqdn and (full := fqdn(pod, name, facts)):
        if len(full) > FQDN_CHARS_MAX:
            raise ValueError(
                f"the full name {full!r} of pod {pod.metadata.name} is longer than {FQDN_CHARS_MAX} characters"
            )
        return full
    return name


def fqdn(pod: Pod, name: str, facts: NodeFacts) -> str:
    """The pod's full domain name, or empty where it has no subdomain."""
    if not pod.spec.subdomain or pod.spec.host_network:
        return ""
    suffix = f".{facts.cluster_domain}" if facts.cluster_domain else ""
    return f"{name}.{pod.spec.subdomain}.{pod.metadata.namespace}.svc{suffix}"


def hosts_file(pod: Pod, ips: tuple[str, ...], facts: NodeFacts, node_hosts: str) -> str:
    """The content of the pod's /etc/hosts. ``node_hosts`` is the node's own, which host-network pods share."""
    if pod.spec.host_network:
        lines = [HOST_NETWORK_HEADER, node_hosts.rstrip("\n")]
    else:
        name = pod.spec.hostname or pod.metadata.name[:HOSTNAME_CHARS_MAX].rstrip("-.")
        full = fqdn(pod, name, facts)
        own = f"{full}\t{name}" if full else name
        lines = [HEADER, *_LOCAL, *(f"{ip}\t{own}" for ip in ips)]
    if pod.spec.host_aliases:
        lines += ["", "# Entries added by HostAliases."]
        lines += [f"{alias.ip}\t" + "\t".join(alias.hostnames) for alias in pod.spec.host_aliases]
    return "\n".join(lines) + "\n"
