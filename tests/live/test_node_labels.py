"""That a real API server lets a node give itself exactly the labels this agent thinks it may."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from live.kit.kubectl import KubectlFailed
from trikubelet.core.node_status.own_labels import ALLOWED, label_faults

if TYPE_CHECKING:
    from live.kit.control_plane import ControlPlane

pytestmark = pytest.mark.slow

DOMAINS = ("kubernetes.io", "k8s.io")
BELOW = (
    "node",
    "kubelet",
    "a.node",
    "a.kubelet",
    "anode",
    "node.a",
    "node-role",
    "node-restriction",
    "topology",
    "beta",
)
OTHERS = (
    "disk",
    "kubernetes.io",
    "example.com/disk",
    "akubernetes.io/a",
    "kubernetes.io.example.com/a",
    "node.kubernetes.io/instance-type",
    "node.kubernetes.io/exclude-from-external-load-balancers",
    "node.kubernetes.io/windows-build",
    "node.alpha.kubernetes.io/ttl",
    "beta.kubernetes.io/fluentd-ds-ready",
    "failure-domain.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/rack",
    "topology.kubernetes.io/rack",
    "kubernetes.io/instance-type",
    "kubernetes.io/role",
    "kubernetes.io/metadata.name",
)
NAMES = (*sorted(ALLOWED), *OTHERS, *(f"{name}.{domain}/a" for domain in DOMAINS for name in BELOW))


def test_a_node_may_give_itself_the_labels_we_think_it_may(control_plane: ControlPlane) -> None:
    as_node = control_plane.kubectl_as(control_plane.node_kubeconfig("one"))
    wrong = {}
    for name in NAMES:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "one", "labels": {name: "x"}}}
        may = not list(label_faults({name: "x"}))
        try:
            as_node("create", "-f-", "--dry-run=server", "--validate=false", manifests=node)
        except KubectlFailed as error:
            if may or "is not allowed to set the following labels" not in str(error):
                wrong[name] = str(error)
        else:
            if not may:
                wrong[name] = "allowed"
    assert {} == wrong
