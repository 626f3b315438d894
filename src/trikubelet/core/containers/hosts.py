"""The managed /etc/hosts of a pod: its own names, the node's entries on the host network, and its host aliases.

Upstream's layout to the letter, because people parse it. The file is written by ``pods.configs`` through the PodFiles
port and mounted by ``mounts``, unless a container mounts something of its own there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.containers.hostname import pod_name

if TYPE_CHECKING:
    from trikubelet.core.containers.facts import NodeFacts
    from trikubelet.model.k8s import Pod

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
    """The content of the pod's /etc/hosts. ``node_hosts`` is the node's own, which host-network pods share; ``ips`` are
    the pod's addresses of either family, each listed with its names."""
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
