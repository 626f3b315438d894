"""Which labels a node may give itself: upstream's table of reserved names."""

from __future__ import annotations

import pytest

from trikubelet.core.node_status.own_labels import REMEDY, label_faults


@pytest.mark.parametrize(
    "name",
    [
        "disk",
        "example.com/disk",
        "notkubernetes.io/a",
        "kubernetes.io.example.com/a",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "node.kubernetes.io/anything",
        "kubelet.kubernetes.io/anything",
        "below.node.kubernetes.io/anything",
        "below.kubelet.kubernetes.io/anything",
    ],
)
def test_a_node_may_say_what_it_knows_of_itself(name: str) -> None:
    assert [] == list(label_faults({name: "x"}))


@pytest.mark.parametrize(
    "name",
    [
        "kubernetes.io/evil",
        "k8s.io/evil",
        "below.k8s.io/evil",
        "topology.kubernetes.io/rack",
        "node-role.kubernetes.io/master",
        "node-role.kubernetes.io/control-plane",
        "node-restriction.kubernetes.io/tenant",
        "mynode.kubernetes.io/a",
        "node.kubernetes.io.k8s.io/a",
    ],
)
def test_a_name_of_kubernetes_itself_is_refused_with_what_is_allowed(name: str) -> None:
    ((problem, remedy),) = label_faults({"disk": "ssd", name: ""})

    assert repr(name) in problem
    assert REMEDY == remedy


@pytest.mark.parametrize(("name", "value"), [("-a", ""), ("a/b/c", ""), ("a", "b c"), ("a", "b" * 64)])
def test_what_is_no_label_is_refused(name: str, value: str) -> None:
    assert 1 == len(list(label_faults({name: value})))
