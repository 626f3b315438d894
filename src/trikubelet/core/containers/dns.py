"""A pod's resolv.conf, from its ``dnsPolicy``, its ``dnsConfig``, the cluster's DNS and the host's own.

Limits are upstream's: 3 name servers, 32 search domains of 253 characters each and 2048 in all. The excess is left out
with a warning event.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from trikubelet.model.runtime_config import DNSConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trikubelet.core.containers.facts import NodeFacts
    from trikubelet.model.k8s import Pod, PodDNSConfig

SERVERS_MAX, SEARCHES_MAX, SEARCH_CHARS_MAX, SEARCH_CHARS_EACH_MAX = 3, 32, 2048, 253


class DNSWarning(NamedTuple):
    """A warning for the pod's user, sent as an event."""

    reason: str
    message: str


class DNSPlan(NamedTuple):
    """The configuration, and the warnings about it."""

    config: DNSConfig
    warnings: tuple[DNSWarning, ...]


def dns_plan(pod: Pod, facts: NodeFacts) -> DNSPlan:
    """Return the content of the pod's resolv.conf."""
    base = _by_policy(pod, facts)
    warnings: list[DNSWarning] = []
    if _misses_cluster_dns(pod, facts):
        warnings.append(DNSWarning("MissingClusterDNS", _fallback(pod)))
    wanted = _merged(base, pod.spec.dns_config)
    fitting = DNSConfig(wanted.servers[:SERVERS_MAX], _fitting(wanted.searches), wanted.options)
    if fitting.servers != wanted.servers:
        message = "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is:"
        warnings.append(DNSWarning("DNSConfigForming", f"{message} {' '.join(fitting.servers)}"))
    if fitting.searches != wanted.searches:
        message = "Search Line limits were exceeded, some search paths have been omitted, the applied search line is:"
        warnings.append(DNSWarning("DNSConfigForming", f"{message} {' '.join(fitting.searches)}"))
    return DNSPlan(fitting, tuple(warnings))


def _misses_cluster_dns(pod: Pod, facts: NodeFacts) -> bool:
    """True if the pod wants the cluster's DNS but the node has none configured. Never without a cluster."""
    return _wants_cluster_dns(pod) and not facts.cluster_dns and facts.in_cluster


def _wants_cluster_dns(pod: Pod) -> bool:
    policy = pod.spec.dns_policy or "ClusterFirst"
    return policy == "ClusterFirstWithHostNet" or (policy == "ClusterFirst" and not pod.spec.host_network)


def _fallback(pod: Pod) -> str:
    meta = pod.metadata
    # Upstream names this policy even if it is ClusterFirstWithHostNet.
    return (
        f'pod: "{meta.name}_{meta.namespace}({meta.uid})". kubelet does not have ClusterDNS IP configured and cannot'
        ' create Pod using "ClusterFirst" policy. Falling back to "Default" policy.'
    )


def _by_policy(pod: Pod, facts: NodeFacts) -> DNSConfig:
    """Return the configuration before the pod's own."""
    if pod.spec.dns_policy == "None":
        return DNSConfig()
    if not _wants_cluster_dns(pod) or not facts.cluster_dns:
        return _of_the_node(pod, facts)
    domain = facts.cluster_domain
    searches = (f"{pod.metadata.namespace}.svc.{domain}", f"svc.{domain}", domain) if domain else ()
    return DNSConfig(facts.cluster_dns, _unique((*searches, *facts.resolv_conf.searches)), ("ndots:5",))


def _of_the_node(pod: Pod, facts: NodeFacts) -> DNSConfig:
    """Return the host's own, without name servers that a network of the pod's own cannot reach, like upstream since
    1.38. If that is empty, as with an empty ``resolvConf``, the resolver's default is passed explicitly: a runtime that
    is given nothing would give the pod the host's file after all."""
    config = facts.resolv_conf
    if config == DNSConfig():
        return DNSConfig(_loopbacks(facts), (".",))
    if pod.spec.host_network:
        return config
    return replace(config, servers=tuple(filter(_is_reachable, config.servers)) or _loopbacks(facts))


def _is_reachable(server: str) -> bool:
    """True for an address without a zone (``fe80::1%eth0``), which names an interface of the node."""
    try:
        address = ip_address(server)
    except ValueError:
        return False
    return not (isinstance(address, IPv6Address) and address.scope_id)


def _loopbacks(facts: NodeFacts) -> tuple[str, ...]:
    """Return the loopback address of each family that the node has an address of; IPv4's for a node without one."""
    return _unique("::1" if ":" in ip else "127.0.0.1" for ip in facts.host_ips) or ("127.0.0.1",)


def _merged(base: DNSConfig, own: PodDNSConfig | None) -> DNSConfig:
    """Add the pod's own servers and searches after the policy's; its options replace the policy's of the same name."""
    if own is None:
        return base
    options = dict(_option(text) for text in base.options)
    options.update({option.name: option.value for option in own.options})
    return DNSConfig(
        _unique((*base.servers, *own.nameservers)),
        _unique((*base.searches, *own.searches)),
        _written(options),
    )


def _option(text: str) -> tuple[str, str]:
    name, _, value = text.partition(":")
    return name, value


def _written(options: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{name}:{value}" if value else name for name, value in options.items())


def _unique(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))


def _fitting(searches: tuple[str, ...]) -> tuple[str, ...]:
    kept: list[str] = []
    for search in searches[:SEARCHES_MAX]:
        if len(search) > SEARCH_CHARS_EACH_MAX:  # glibc 2.28 aborts a process with such a domain
            continue
        if len(" ".join([*kept, search])) > SEARCH_CHARS_MAX:
            break
        kept.append(search)
    return tuple(kept)


def parse_resolv_conf(text: str) -> DNSConfig:
    """Return the parts of a resolv.conf like the resolver: the last ``search`` line counts, all ``options`` lines
    count, and of an option the last value."""
    servers: list[str] = []
    searches: tuple[str, ...] = ()
    options: dict[str, str] = {}
    for line in text.splitlines():
        words = line.split()
        if not words or words[0].startswith(("#", ";")):
            continue
        if words[0] == "nameserver" and len(words) > 1:
            servers.append(words[1])
        elif words[0] == "search":
            searches = tuple(word if word == "." else word.removesuffix(".") for word in words[1:])
        elif words[0] == "options":
            options.update(map(_option, words[1:]))
    return DNSConfig(tuple(servers), searches, _written(options))
