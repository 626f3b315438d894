"""A pod's names and addresses: host name, DNS, host aliases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.containers.dns import SEARCH_CHARS_MAX, SEARCHES_MAX, SERVERS_MAX
from trikubelet.core.manifest.problem import forbidden, invalid, named, one_of, required, too_long
from trikubelet.model import names

if TYPE_CHECKING:
    from trikubelet.core.manifest.problem import Problems
    from trikubelet.model.k8s import PodDNSConfig, PodSpec

DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
HOSTNAME_CHARS_MAX = 64
"""The kernel's limit."""


def network_problems(spec: PodSpec) -> Problems:
    """Yield the problems of a pod's host names and DNS."""
    for field, name in (("hostname", spec.hostname), ("subdomain", spec.subdomain)):
        if name:
            yield from named(f"spec.{field}", name, names.label_problem(name))
    yield from _hostname_override(spec)
    yield from one_of("spec.dnsPolicy", spec.dns_policy, DNS_POLICIES)
    if spec.dns_policy == "None" and not (spec.dns_config and spec.dns_config.nameservers):
        yield required("spec.dnsConfig.nameservers", 'at least one where dnsPolicy is "None"')
    if spec.dns_config is not None:
        yield from _dns_config(spec.dns_config)
    for n, alias in enumerate(spec.host_aliases):
        path = f"spec.hostAliases[{n}]"
        yield from named(f"{path}.ip", alias.ip, names.ip_problem(alias.ip))
        for m, name in enumerate(alias.hostnames):
            yield from named(f"{path}.hostnames[{m}]", name, names.subdomain_problem(name))


def _hostname_override(spec: PodSpec) -> Problems:
    path, name = "spec.hostnameOverride", spec.hostname_override
    if not name:
        return
    yield from named(path, name, names.subdomain_problem(name))
    if len(name) > HOSTNAME_CHARS_MAX:
        yield too_long(path, HOSTNAME_CHARS_MAX)
    if spec.set_hostname_as_fqdn:
        yield forbidden("spec.setHostnameAsFQDN", "may not be true where hostnameOverride is set")
    if spec.host_network:
        yield forbidden("spec.hostNetwork", "may not be true where hostnameOverride is set")


def _dns_config(config: PodDNSConfig) -> Problems:
    path = "spec.dnsConfig"
    if len(config.nameservers) > SERVERS_MAX:
        yield invalid(f"{path}.nameservers", config.nameservers, f"must not have more than {SERVERS_MAX}")
    for n, address in enumerate(config.nameservers):
        yield from named(f"{path}.nameservers[{n}]", address, names.ip_problem(address))
    if len(config.searches) > SEARCHES_MAX:
        yield invalid(f"{path}.searches", config.searches, f"must not have more than {SEARCHES_MAX} paths")
    if len(" ".join(config.searches)) > SEARCH_CHARS_MAX:
        detail = f"must not have more than {SEARCH_CHARS_MAX} characters, blanks between them included"
        yield invalid(f"{path}.searches", config.searches, detail)
    for n, search in enumerate(config.searches):
        yield from _search(f"{path}.searches[{n}]", search)
    for n, option in enumerate(config.options):
        if not option.name:
            yield required(f"{path}.options[{n}].name")


def _search(path: str, search: str) -> Problems:
    """Yield the problems of a search path. It may end in a dot, may be the root, and may have underscores."""
    if search == ".":
        return
    name = search.removesuffix(".").replace("_", "u")
    yield from named(path, search, names.subdomain_problem(name))
