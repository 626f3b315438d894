"""Who a static pod is: the same file the same pod, another file another one; and what such a pod may not need."""

import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.core.document import parse_documents
from trikubelet.core.fnv import fnv1a_128
from trikubelet.core.manifest.static import api_references, is_url, static_pod
from trikubelet.core.structure import decode
from trikubelet.model import k8s

SEEN = "2026-11-21T09:00:00Z"
FILE, URL = "/etc/kubernetes/manifests/web.yaml", "https://config.example/web"


def pod(name: str = "web", metadata: dict[str, object] | None = None, **spec: object) -> k8s.Pod:
    whole = {"containers": [{"name": "main", "image": "a"}]} | spec
    value = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name} | (metadata or {}), "spec": whole}
    ((document,), _) = parse_documents(yaml.safe_dump(value), "f")
    read, faults = decode(document, k8s.Pod)
    assert faults == []
    assert read is not None
    return read


def test_a_pod_of_a_file_is_named_for_its_node_and_knows_where_it_came_from() -> None:
    static = static_pod(pod(), FILE, "Node.A", SEEN)
    meta = static.metadata

    assert ("web-node.a", "default") == (meta.name, meta.namespace)
    assert re.fullmatch("[0-9a-f]{32}", meta.uid)
    assert {
        "kubernetes.io/config.source": "file",
        "kubernetes.io/config.hash": meta.uid,
        "kubernetes.io/config.seen": SEEN,
    } == meta.annotations
    assert "Node.A" == static.spec.node_name
    assert (k8s.Toleration(operator="Exists", effect="NoExecute"),) == static.spec.tolerations
    assert k8s.PodStatus(phase="Pending") == static.status


def test_file_name_may_be_undecodable() -> None:
    uids = {
        static_pod(pod(), f"/manifests/{name}.yaml", "node", SEEN).metadata.uid for name in ("\udcff", "\udcfe", "?")
    }

    assert 3 == len(uids)


def test_a_pod_of_a_url_has_no_toleration_of_its_own() -> None:
    static = static_pod(pod(), URL, "node", SEEN)

    assert "http" == static.metadata.annotations["kubernetes.io/config.source"]
    assert () == static.spec.tolerations


def test_the_toleration_is_not_added_twice() -> None:
    stays = {"operator": "Exists", "effect": "NoExecute"}

    assert 1 == len(static_pod(pod(tolerations=[stays]), FILE, "node", SEEN).spec.tolerations)


def test_what_a_manifest_claims_to_have_been_on_a_node_is_not_believed() -> None:
    told = {"kubernetes.io/config.seen": "1999-01-01T00:00:00Z", "kubernetes.io/config.mirror": "x", "mine": "yes"}
    static = static_pod(pod(metadata={"annotations": told}), FILE, "node", SEEN)

    assert SEEN == static.metadata.annotations["kubernetes.io/config.seen"]
    assert "kubernetes.io/config.mirror" not in static.metadata.annotations
    assert "yes" == static.metadata.annotations["mine"]


def test_a_manifest_of_a_pod_that_was_ending_is_of_one_that_runs() -> None:
    ending = {"deletionTimestamp": "2019-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    meta = static_pod(pod(metadata=ending), FILE, "node", SEEN).metadata

    assert ("", None) == (meta.deletion_timestamp, meta.deletion_grace_period_seconds)


def uid(of: k8s.Pod | None = None, source: str = FILE, node: str = "node", seen: str = SEEN) -> str:
    return static_pod(of or pod(), source, node, seen).metadata.uid


def test_the_same_manifest_is_the_same_pod_whenever_it_is_read() -> None:
    assert uid() == uid(seen="2030-01-01T00:00:00Z")
    copied = {"annotations": {"kubernetes.io/config.seen": "1999-01-01T00:00:00Z"}}
    assert uid() == uid(pod(metadata=copied))


@pytest.mark.parametrize(
    "other",
    [
        {"of": pod("webb")},
        {"of": pod(hostname="a")},
        {"of": pod(metadata={"labels": {"a": "b"}})},
        {"of": pod(metadata={"annotations": {"a": "b"}})},
        {"source": "/etc/kubernetes/manifests/other.yaml"},
        {"source": URL},
        {"node": "other"},
    ],
)
def test_anything_else_in_it_or_another_place_is_another_pod(other: dict[str, object]) -> None:
    assert uid() != uid(**other)  # type: ignore[arg-type] # by name


def test_a_uid_in_the_manifest_is_kept() -> None:
    static = static_pod(pod(metadata={"uid": "mine"}), FILE, "node", SEEN)

    assert ("mine", "mine") == (static.metadata.uid, static.metadata.annotations["kubernetes.io/config.hash"])


def test_the_hash_is_fnv_1a_with_128_bits() -> None:
    # The reference vector of its authors (the hash of "foobar").
    assert 0x343E1662793C64BF6F0D3597BA446F18 == fnv1a_128(b"foobar")


@given(st.dictionaries(st.from_regex("[a-z]{1,8}", fullmatch=True), st.text(max_size=5), min_size=1))
def test_the_order_of_keys_does_not_make_another_pod(labels: dict[str, str]) -> None:
    container = k8s.Container(name="main", image="a")
    spec = k8s.PodSpec(containers=(container,))
    turned = dict(reversed(labels.items()))
    one, two = (k8s.Pod(metadata=k8s.ObjectMeta(name="web", labels=each), spec=spec) for each in (labels, turned))

    assert uid(one) == uid(two)


@pytest.mark.parametrize(("source", "expected"), [("/a/http://b", False), ("http://a", True), ("https://a", True)])
def test_a_source_is_a_url_or_a_path(source: str, expected: bool) -> None:
    assert expected is is_url(source)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"volumes": [{"name": "a", "hostPath": {"path": "/a"}}]}, []),
        ({"volumes": [{"name": "a", "projected": {"sources": [{"downwardAPI": {}}]}}]}, []),
        ({"imagePullSecrets": [{"name": "a"}]}, []),
        ({"serviceAccountName": "a"}, ["spec.serviceAccountName"]),
        ({"serviceAccount": "a"}, ["spec.serviceAccount"]),
        ({"resourceClaims": [{"name": "a"}]}, ["spec.resourceClaims[0]"]),
        ({"volumes": [{"name": "a", "secret": {}}]}, []),
        ({"volumes": [{"name": "a", "configMap": {}}]}, []),
        ({"volumes": [{"name": "a", "ephemeral": {}}]}, ["spec.volumes[0].ephemeral"]),
        (
            {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "b"}}]},
            ["spec.volumes[0].persistentVolumeClaim"],
        ),
        (
            {
                "volumes": [
                    {
                        "name": "a",
                        "projected": {
                            "sources": [
                                {"configMap": {"name": "b"}},
                                {"secret": {"name": "b"}},
                                {"serviceAccountToken": {"path": "b"}},
                                {"clusterTrustBundle": {"path": "b"}},
                            ]
                        },
                    }
                ]
            },
            [
                "spec.volumes[0].projected.sources[2].serviceAccountToken",
                "spec.volumes[0].projected.sources[3].clusterTrustBundle",
            ],
        ),
        (
            {"volumes": [{"name": "a", "csi": {"driver": "b", "nodePublishSecretRef": {"name": "c"}}}]},
            ["spec.volumes[0].csi"],
        ),
        ({"volumes": [{"name": "a", "csi": {"driver": "b"}}]}, []),
        (
            {
                "containers": [
                    {
                        "name": "main",
                        "image": "a",
                        "env": [
                            {"name": "A", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}},
                            {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}},
                        ],
                        "envFrom": [{"secretRef": {"name": "a"}}, {"configMapRef": {"name": "a"}}],
                    }
                ]
            },
            [],
        ),
    ],
)
def test_what_only_an_api_server_has_is_named(spec: dict[str, object], expected: list[str]) -> None:
    assert expected == api_references(pod(**spec))
