"""A pod's resolv.conf: every policy, merging with the pod's own, limits, and what is said when something is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.podkit import pod
from trikubelet.core.containers import NodeFacts
from trikubelet.core.containers.dns import SEARCH_CHARS_MAX, DNSWarning, dns_plan, parse_resolv_conf
from trikubelet.model import k8s
from trikubelet.model.runtime_config import DNSConfig

HOST = DNSConfig(("192.0.2.53",), ("example.org",), ("timeout:1",))
FACTS = NodeFacts("n", cluster_dns=("10.96.0.10",), cluster_domain="cluster.local", resolv_conf=HOST)
CLUSTER = DNSConfig(
    ("10.96.0.10",), ("default.svc.cluster.local", "svc.cluster.local", "cluster.local", "example.org"), ("ndots:5",)
)


@pytest.mark.parametrize(
    ("expected", "policy", "host_network"),
    [
        pytest.param(CLUSTER, "ClusterFirst", None, id="the cluster's"),
        pytest.param(CLUSTER, "", None, id="the cluster's by default"),
        pytest.param(HOST, "ClusterFirst", True, id="the host's on the host network"),
        pytest.param(CLUSTER, "ClusterFirstWithHostNet", True, id="the cluster's on the host network"),
        pytest.param(HOST, "Default", None, id="the host's"),
        pytest.param(DNSConfig(), "None", None, id="none"),
    ],
)
def test_each_policy_begins_with_its_own(expected: DNSConfig, policy: str, host_network: bool | None) -> None:
    assert (expected, ()) == dns_plan(pod(dns_policy=policy, host_network=host_network), FACTS)


def test_without_a_cluster_domain_only_the_hosts_domains_are_searched() -> None:
    facts = NodeFacts("n", cluster_dns=("10.96.0.10",), resolv_conf=HOST)

    assert DNSConfig(("10.96.0.10",), ("example.org",), ("ndots:5",)) == dns_plan(pod(), facts).config


@pytest.mark.parametrize("policy", ["ClusterFirst", "ClusterFirstWithHostNet"])
def test_without_the_clusters_dns_the_pod_gets_the_hosts_and_is_told_so(policy: str) -> None:
    made = dns_plan(pod(dns_policy=policy), NodeFacts("n", resolv_conf=HOST))

    assert HOST == made.config
    message = (
        'pod: "pod_default(12345678)". kubelet does not have ClusterDNS IP configured and cannot create Pod using'
        ' "ClusterFirst" policy. Falling back to "Default" policy.'
    )
    assert (DNSWarning("MissingClusterDNS", message),) == made.warnings


def test_cluster_dns_is_not_required_without_a_cluster() -> None:
    assert (HOST, ()) == dns_plan(pod(), NodeFacts("n", resolv_conf=HOST, in_cluster=False))


def test_empty_resolv_conf_gives_pods_no_name_servers() -> None:
    assert DNSConfig(("127.0.0.1",), (".",)) == dns_plan(pod(dns_policy="Default"), NodeFacts("n")).config


@pytest.mark.parametrize(
    ("expected", "host_ips"),
    [(("::1",), ("2001:db8::1",)), (("127.0.0.1", "::1"), ("192.0.2.1", "2001:db8::1"))],
)
def test_empty_resolv_conf_names_the_loopback_address_of_each_family(
    expected: tuple[str, ...], host_ips: tuple[str, ...]
) -> None:
    assert DNSConfig(expected, (".",)) == dns_plan(pod(dns_policy="Default"), NodeFacts("n", host_ips)).config


@pytest.mark.parametrize(
    ("expected", "servers", "host_network"),
    [
        pytest.param(("192.0.2.53",), ("fe80::1%eth0", "192.0.2.53"), None, id="one of an interface of the node"),
        pytest.param(("fe80::1",), ("fe80::1", "fe80::1%2"), None, id="only the one with an interface"),
        pytest.param(("192.0.2.53",), ("192.0.2.53", "dns.example"), None, id="a name"),
        pytest.param(("127.0.0.1",), ("fe80::1%eth0",), None, id="all of them"),
        pytest.param(("fe80::1%eth0",), ("fe80::1%eth0",), True, id="on the host network all stay"),
    ],
)
def test_inherited_name_servers_that_the_pod_cannot_reach_are_left_out(
    expected: tuple[str, ...], servers: tuple[str, ...], host_network: bool | None
) -> None:
    facts = NodeFacts("n", resolv_conf=DNSConfig(servers, ("example.org",)))
    it = pod(dns_policy="Default", host_network=host_network)

    assert DNSConfig(expected, ("example.org",)) == dns_plan(it, facts).config


def test_name_server_that_the_pod_itself_names_stays() -> None:
    facts = NodeFacts("n", resolv_conf=DNSConfig(("fe80::1%eth0", "192.0.2.53")))

    assert ("192.0.2.53", "fe80::2%eth0") == dns_plan(with_dns(("fe80::2%eth0",)), facts).config.servers


def with_dns(
    servers: tuple[str, ...] = (), searches: tuple[str, ...] = (), policy: str = "Default", **options: str
) -> k8s.Pod:
    listed = tuple(k8s.PodDNSConfigOption(name=name, value=value) for name, value in options.items())
    return pod(dns_policy=policy, dns_config=k8s.PodDNSConfig(nameservers=servers, searches=searches, options=listed))


def test_a_pods_own_comes_after_and_its_options_override() -> None:
    it = with_dns(("192.0.2.1", "192.0.2.53"), ("mine.example", "example.org"), timeout="3", edns0="")

    assert (
        DNSConfig(("192.0.2.53", "192.0.2.1"), ("example.org", "mine.example"), ("timeout:3", "edns0")),
        (),
    ) == dns_plan(it, FACTS)


def test_with_no_policy_a_pods_own_is_all() -> None:
    it = with_dns(("192.0.2.1",), ("mine.example",), policy="None", ndots="2")

    assert DNSConfig(("192.0.2.1",), ("mine.example",), ("ndots:2",)) == dns_plan(it, FACTS).config


def test_a_fourth_server_is_left_out_and_told() -> None:
    made = dns_plan(with_dns(("192.0.2.1", "192.0.2.2", "192.0.2.3")), FACTS)

    assert ("192.0.2.53", "192.0.2.1", "192.0.2.2") == made.config.servers
    message = (
        "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is:"
        " 192.0.2.53 192.0.2.1 192.0.2.2"
    )
    assert (DNSWarning("DNSConfigForming", message),) == made.warnings


def test_a_thirty_third_domain_is_left_out_and_told() -> None:
    domains = tuple(f"d{n}" for n in range(32))
    made = dns_plan(with_dns(searches=domains), FACTS)

    kept = ("example.org", *domains[:31])
    assert kept == made.config.searches
    message = (
        "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: "
        + " ".join(kept)
    )
    assert (DNSWarning("DNSConfigForming", message),) == made.warnings


def test_domains_fill_their_line_to_the_last_character_and_no_further() -> None:
    many = tuple(f"{n}" + "a" * 252 for n in range(8))  # 8 * 253 characters, and 7 spaces
    facts = NodeFacts("n", resolv_conf=DNSConfig(searches=many))

    made = dns_plan(with_dns(searches=("b" * 16,)), facts)
    assert ((*many, "b" * 16), ()) == (made.config.searches, made.warnings)
    assert many == dns_plan(with_dns(searches=("b" * 17, "c")), facts).config.searches


def test_a_domain_that_no_resolver_may_have_is_left_out_and_told_wherever_it_stands() -> None:
    longest = ".".join(["a" * 63] * 3 + ["b" * 61])
    facts = NodeFacts("n", resolv_conf=DNSConfig(searches=(longest + "b", longest, "last.example")))

    made = dns_plan(pod(dns_policy="Default"), facts)
    assert (longest, "last.example") == made.config.searches
    message = (
        "Search Line limits were exceeded, some search paths have been omitted, the applied search line is:"
        f" {longest} last.example"
    )
    assert (DNSWarning("DNSConfigForming", message),) == made.warnings


def test_of_several_problems_each_is_reported_by_itself() -> None:
    it = with_dns(("1", "2", "3"), tuple(f"d{n}" for n in range(40)), "ClusterFirst")
    made = dns_plan(it, NodeFacts("n", resolv_conf=HOST))

    assert [("MissingClusterDNS", "pod:"), ("DNSConfigForming", "Nameserver"), ("DNSConfigForming", "Search")] == [
        (reason, message.split()[0]) for reason, message in made.warnings
    ]


NAMES = st.lists(st.sampled_from([f"d{n}" for n in range(50)] + ["x" * 200]), max_size=60).map(tuple)


@given(servers=NAMES, searches=NAMES, policy=st.sampled_from(["None", "Default", "ClusterFirst"]))
def test_whatever_is_merged_keeps_its_order_each_once_within_the_limits_and_cuts_are_reported(
    servers: tuple[str, ...], searches: tuple[str, ...], policy: str
) -> None:
    base = dns_plan(pod(dns_policy=policy), FACTS).config
    made = dns_plan(with_dns(servers, searches, policy), FACTS)

    for wanted, kept in (
        ((*base.servers, *servers), made.config.servers),
        ((*base.searches, *searches), made.config.searches),
    ):
        every = tuple(dict.fromkeys(wanted))
        assert kept == every[: len(kept)]
        assert (kept == every) or made.warnings
    assert len(made.config.servers) <= 3
    assert len(made.config.searches) <= 32
    assert len(" ".join(made.config.searches)) <= SEARCH_CHARS_MAX


def test_a_resolv_conf_is_read_as_the_resolver_reads_it() -> None:
    text = """
# a comment
; another
nameserver 192.0.2.1
nameserver fe80::1%eth0 # trailing words are no server
nameserver
search old.example
search a.example. b.example .
options timeout:1 attempts:3
options ndots:2 edns0
options attempts:4
sortlist 192.0.2.0
"""

    expected = DNSConfig(
        ("192.0.2.1", "fe80::1%eth0"), ("a.example", "b.example", "."), ("timeout:1", "attempts:4", "ndots:2", "edns0")
    )
    assert expected == parse_resolv_conf(text)
    assert DNSConfig() == parse_resolv_conf("")
