"""The managed hosts file, to the letter, and the names a pod has."""

from typing import Any

import pytest

from core.podkit import pod
from trikubelet.core.containers import NodeFacts
from trikubelet.core.containers.host_names import PodName, hosts_file, kernel_hostname, pod_name
from trikubelet.model import k8s

FACTS = NodeFacts("node-a", cluster_domain="cluster.local")
LOCAL = """\
# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""
ALIASES = (
    k8s.HostAlias(ip="192.0.2.7", hostnames=("foo", "foo.example")),
    k8s.HostAlias(ip="2001:db8::7", hostnames=("bar",)),
)
ALIASED = "\n# Entries added by HostAliases.\n192.0.2.7\tfoo\tfoo.example\n2001:db8::7\tbar\n"


@pytest.mark.parametrize(
    ("expected", "ips", "fields"),
    [
        pytest.param(LOCAL + "10.0.0.1\tpod\n", ("10.0.0.1",), {}, id="its name"),
        pytest.param(
            LOCAL + "10.0.0.1\tpod\nfd00::1\tpod\n", ("10.0.0.1", "fd00::1"), {}, id="an address of each family"
        ),
        pytest.param(
            LOCAL + "10.0.0.1\tweb.sub.default.svc.cluster.local\tweb\n",
            ("10.0.0.1",),
            {"hostname": "web", "subdomain": "sub"},
            id="its full name first",
        ),
        pytest.param(LOCAL + "10.0.0.1\tpod\n" + ALIASED, ("10.0.0.1",), {"host_aliases": ALIASES}, id="with aliases"),
        pytest.param(LOCAL, (), {}, id="no address yet"),
    ],
)
def test_a_pods_own_hosts_file(expected: str, ips: tuple[str, ...], fields: dict[str, Any]) -> None:
    assert expected == hosts_file(pod(**fields), ips, FACTS, "")


@pytest.mark.parametrize(
    "nodes", ["127.0.0.1 localhost\n192.0.2.1 node-a", "127.0.0.1 localhost\n192.0.2.1 node-a\n\n"]
)
def test_on_the_host_network_it_is_the_nodes_with_the_pods_aliases(nodes: str) -> None:
    header = "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n192.0.2.1 node-a\n"

    assert header == hosts_file(pod(host_network=True), ("192.0.2.1",), FACTS, nodes)
    assert header + ALIASED == hosts_file(pod(host_network=True, host_aliases=ALIASES), (), FACTS, nodes)


@pytest.mark.parametrize(
    ("expected", "name", "fields"),
    [
        pytest.param(PodName("p", ""), "p", {}, id="its own"),
        pytest.param(PodName("h", ""), "p", {"hostname": "h"}, id="the one it asks for"),
        pytest.param(PodName("p", "p.s.default.svc.cluster.local"), "p", {"subdomain": "s"}, id="with a subdomain"),
        pytest.param(PodName("node-a", ""), "p", {"hostname": "h", "host_network": True}, id="the node's"),
        pytest.param(
            PodName("o.b", ""), "p", {"hostname_override": "o.b", "hostname": "h", "subdomain": "s"}, id="an override"
        ),
        pytest.param(PodName("a" * 63, ""), "a" * 70, {}, id="cut to one label"),
        pytest.param(PodName("a" * 61, ""), "a" * 61 + ".-b", {}, id="cut to one that is valid"),
    ],
)
def test_what_a_pod_is_called(expected: PodName, name: str, fields: dict[str, Any]) -> None:
    assert expected == pod_name(pod(meta={"name": name}, **fields), FACTS)


def test_full_name_ends_in_a_dot_without_a_cluster_domain() -> None:
    assert "p.s.default.svc." == pod_name(pod(meta={"name": "p"}, subdomain="s"), NodeFacts("n")).full


def test_the_kernel_is_told_the_full_name_where_that_is_asked_for_and_fits() -> None:
    fields = {"subdomain": "s", "set_hostname_as_fqdn": True}

    assert "pod.s.default.svc.cluster.local" == kernel_hostname(pod(**fields), FACTS)
    assert "pod" == kernel_hostname(pod(subdomain="s"), FACTS)
    assert "pod" == kernel_hostname(pod(set_hostname_as_fqdn=True), FACTS)

    fits = "h" * (64 - len(".s.default.svc.cluster.local"))
    assert 64 == len(kernel_hostname(pod(hostname=fits, **fields), FACTS))
    with pytest.raises(ValueError, match="64 characters is the max, 65 characters requested"):
        kernel_hostname(pod(hostname=fits + "h", **fields), FACTS)
