"""Which pods read a ConfigMap or a Secret."""

from __future__ import annotations

import msgspec
import pytest

from trikubelet.core.object_users import read_by, users
from trikubelet.model.k8s import Pod

SPECS = [
    {"volumes": [{"name": "v", "configMap": {"name": "m"}}]},
    {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
    {"volumes": [{"name": "v", "projected": {"sources": [{"configMap": {"name": "m"}}, {"secret": {"name": "s"}}]}}]},
    {"containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": "m"}}, {"secretRef": {"name": "s"}}]}]},
    {"initContainers": [{"name": "c", "env": [
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "C", "value": "m"},
    ]}]},
    {"imagePullSecrets": [{"name": "s"}]},
    {"ephemeralContainers": [{"name": "e", "envFrom": [{"secretRef": {"name": "s"}}]}]},
    {"volumes": [{"name": "m", "emptyDir": {}}], "containers": [{"name": "s"}]},
]  # fmt: skip
MAP, SECRET = ("ConfigMap", "m"), ("Secret", "s")


def pod(spec: dict[str, object], namespace: str = "default") -> Pod:
    meta = {"name": "web", "namespace": namespace}
    return msgspec.convert({"metadata": meta, "spec": {"containers": [{"name": "c"}], **spec}}, Pod)


@pytest.mark.parametrize(
    ("found", "spec"),
    list(zip([{MAP}, {SECRET}, {MAP, SECRET}, {MAP, SECRET}, {MAP, SECRET}, {SECRET}, {SECRET}, set()], SPECS,
             strict=True)),
)  # fmt: skip
def test_pod_reads_objects_by_volumes_variables_and_pulls(found: set[tuple[str, str]], spec: dict[str, object]) -> None:
    assert found == read_by(pod(spec))


def test_only_pods_of_the_same_namespace_read_an_object() -> None:
    pods = [pod(SPECS[0]), pod(SPECS[0], "other"), pod(SPECS[1])]

    assert ["web"] == list(users(pods, "ConfigMap", "default", "m"))
    assert [] == list(users(pods, "ConfigMap", "default", "nope"))
