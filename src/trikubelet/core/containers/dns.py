"""A pod's resolv.conf, from its ``dnsPolicy``, its ``dnsConfig``, the cluster's DNS and the host's own.

Limits are upstream's: 3 name servers, 32 search domains, 2048 characters of them. What does not fit is cut, and said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trikubelet.model.runtime_config import DNSConfig

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.core.containers.facts import NodeFacts
    from trikubelet.model.k8s import Pod

SERVERS_MAX, SEARCHES_MAX, SEARCH_CHARS_MAX = 3, 32, 2048


class DNSPlan(NamedTuple):
    """The configuration, and what a user must be told about it (event reason ``DNSConfigForming``), or empty."""

    config: DNSConfig
    warning: str


def dns_plan(pod: Pod, facts: NodeFacts) -> DNSPlan:
    """What the pod's resolv.conf shall say."""
    base, warning = _by_policy(pod, facts)
    own = pod.spec.dns_config
    if own is not None:
        options = dict(_option(text) for text in base.options)
        options.update({option.name: option.value for option in own.options})
        base = DNSConfig(
            _unique((*base.servers, *own.nameservers)),
            _unique((*base.searches, *own.searches)),
            tuple(f"{name}:{value}" if value else name for name, value in options.items()),
        )
    cut = DNSConfig(base.servers[:SERVERS_MAX], _fitting(base.searches), base.options)
    if cut.servers != base.servers:
        kept = " ".join(cut.servers)
        warning = warning or f"Nameserver limits were exceeded, some nameservers have been omitted: {kept}"
    if cut.searches != base.searches:
        kept = " ".join(cut.searches)
        warning = warning or f"Search Line limits were exceeded, some search paths have been omitted: {kept}"
    return DNSPlan(cut, warning)


def _by_policy(pod: Pod, facts: NodeFacts) -> tuple[DNSConfig, str]:
    host = DNSConfig(facts.resolv_conf.servers, facts.resolv_conf.searches, facts.resolv_conf.options)
    policy = pod.spec.dns_policy or "ClusterFirst"
    if policy == "None":
        return DNSConfig(), ""
    if policy == "ClusterFirst" and pod.spec.host_network:
        policy = "Default"
    if policy == "Default":
        return host, ""
    if not facts.cluster_dns:
        text = "kubelet does not have ClusterDNS IP configured and cannot create Pod using"
        return host, f'{text} "{pod.spec.dns_policy}" policy. Falling back to "Default" policy.'
    domain = facts.cluster_domain
    searches = (f"{pod.metadata.namespace}.svc.{domain}", f"svc.{domain}", domain) if domain else ()
    return DNSConfig(facts.cluster_dns, _unique((*searches, *host.searches)), ("ndots:5",)), ""


def _option(text: str) -> tuple[str, str]:
    name, _, value = text.partition(":")
    return name, value


def _unique(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))


def _fitting(searches: tuple[str, ...]) -> tuple[str, ...]:
    kept: list[str] = []
    for search in searches[:SEARCHES_MAX]:
        if len(" ".join([*kept, search])) > SEARCH_CHARS_MAX:
            break
        kept.append(search)
    return tuple(kept)


def parse_resolv_conf(text: str) -> DNSConfig:
    """The parts of a resolv.conf; the last ``search`` and ``options`` lines count, as in the resolver."""
    servers: list[str] = []
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    for line in text.splitlines():
        words = line.split()
        if not words or words[0].startswith(("#", ";")):
            continue
        if words[0] == "nameserver" and len(words) > 1:
            servers.append(words[1])
        elif words[0] == "search":
            searches = tuple(word if word == "." else word.removesuffix(".") for word in words[1:])
        elif words[0] == "options":
            options = tuple(words[1:])
    return DNSConfig(tuple(servers), searches, options)
