"""A container's environment, variable by variable."""

from typing import Any

import pytest

from core.podkit import container, pod
from trikubelet.core.containers import ConfigError, NodeFacts
from trikubelet.core.containers.environment import environment, field_value
from trikubelet.model import k8s

GIB = 1024**3
FACTS = NodeFacts(
    "node-a",
    host_ips=("192.0.2.1", "2001:db8::1"),
    allocatable={"cpu": 3900, "memory": 4 * GIB, "ephemeral-storage": 10 * GIB},
)
META = {
    "labels": {"app": "web", "a/b": 'say "hi"'},
    "annotations": {"note": "two\nlines", "back": "a\\b"},
}
IPS = ("10.0.0.7", "fd00::7")


def var(name: str, value: str = "", **source: Any) -> k8s.EnvVar:
    return k8s.EnvVar(name=name, value=value, value_from=k8s.EnvVarSource(**source) if source else None)


def env_of(
    *variables: k8s.EnvVar, services: dict[str, str] | None = None, **fields: Any
) -> tuple[tuple[str, str], ...]:
    one = container("a", env=variables, **fields)
    return environment(pod(one, meta=META), one, IPS, FACTS, services)


def test_variables_keep_their_order_and_know_the_ones_before() -> None:
    made = env_of(var("B", "1"), var("A", "$(B)-$(LATER)-$$(B)"), var("LATER", "2"))

    assert (("B", "1"), ("A", "1-$(LATER)-$(B)"), ("LATER", "2")) == made


def test_the_last_of_two_with_one_name_counts() -> None:
    assert (("A", "old-new"),) == env_of(var("A", "old"), var("A", "$(A)-new"))


def test_services_are_known_everywhere_come_last_and_override_nothing() -> None:
    made = env_of(var("URL", "http://$(HOST):$(PORT)"), var("PORT", "mine"), services={"HOST": "h", "PORT": "80"})

    assert (("URL", "http://h:80"), ("PORT", "mine"), ("HOST", "h")) == made


@pytest.mark.parametrize(
    ("expected", "path"),
    [
        ("pod", "metadata.name"),
        ("default", "metadata.namespace"),
        ("12345678", "metadata.uid"),
        ("web", "metadata.labels['app']"),
        ('say "hi"', "metadata.labels['a/b']"),
        ("", "metadata.labels['absent']"),
        ("two\nlines", "metadata.annotations['note']"),
        ('a/b="say \\"hi\\""\napp="web"', "metadata.labels"),
        ('back="a\\\\b"\nnote="two\\nlines"', "metadata.annotations"),
        ("node-a", "spec.nodeName"),
        ("", "spec.serviceAccountName"),
        ("192.0.2.1", "status.hostIP"),
        ("192.0.2.1,2001:db8::1", "status.hostIPs"),
        ("10.0.0.7", "status.podIP"),
        ("10.0.0.7,fd00::7", "status.podIPs"),
    ],
)
def test_a_field_of_the_pod(expected: str, path: str) -> None:
    assert (("A", expected),) == env_of(var("A", field_ref=k8s.ObjectFieldSelector(field_path=path)))


def test_a_field_is_not_expanded() -> None:
    one = container(
        "a", env=(var("A", "x"), var("B", field_ref=k8s.ObjectFieldSelector(field_path="metadata.labels['l']")))
    )

    made = environment(pod(one, meta={"labels": {"l": "$(A)"}}), one, (), FACTS)

    assert ("B", "$(A)") == made[1]


def test_a_pod_on_the_host_network_has_the_nodes_addresses_before_it_runs() -> None:
    assert "192.0.2.1" == field_value(pod(host_network=True), "status.podIP", (), FACTS)
    assert "" == field_value(pod(), "status.podIP", (), FACTS)
    assert "" == field_value(pod(), "status.hostIP", (), NodeFacts("n"))


def test_the_scheduled_name_of_the_node_goes_before_our_own() -> None:
    assert "other" == field_value(pod(node_name="other"), "spec.nodeName", (), FACTS)


def test_a_field_that_does_not_exist_fails_the_container() -> None:
    with pytest.raises(ConfigError, match=r"env A: unsupported fieldPath: spec.secret") as failed:
        env_of(var("A", field_ref=k8s.ObjectFieldSelector(field_path="spec.secret")))
    assert ("CreateContainerConfigError", "a") == (failed.value.reason, failed.value.container)


NEEDS = k8s.ResourceRequirements(
    limits={"cpu": "1500m", "memory": "100M", "hugepages-2Mi": "4Mi"}, requests={"cpu": "250m"}
)


@pytest.mark.parametrize(
    ("expected", "resource", "divisor", "needs"),
    [
        pytest.param("2", "limits.cpu", None, NEEDS, id="whole processors, rounded up"),
        pytest.param("1500", "limits.cpu", "1m", NEEDS, id="millicores"),
        pytest.param("1", "requests.cpu", "0", NEEDS, id="a divisor of nothing is one"),
        pytest.param("100000000", "limits.memory", "", NEEDS, id="bytes"),
        pytest.param("96", "limits.memory", "1Mi", NEEDS, id="mebibytes, rounded up"),
        pytest.param("2", "limits.hugepages-2Mi", "2Mi", NEEDS, id="pages"),
        pytest.param("0", "requests.memory", "1", NEEDS, id="a request that is not set"),
        pytest.param("4", "limits.cpu", "1", None, id="no limit is what the node has, rounded up"),
        pytest.param("3900", "limits.cpu", "1m", None, id="no limit, in millicores"),
        pytest.param("4", "limits.memory", "1Gi", None, id="no limit of memory"),
        pytest.param("10", "limits.ephemeral-storage", "1Gi", None, id="no limit of scratch space"),
        pytest.param("0", "limits.hugepages-2Mi", "1", None, id="a node has no fixed amount of pages"),
        pytest.param("0", "requests.cpu", "1", None, id="no request"),
    ],
)
def test_a_resource_in_units_of_its_divisor(
    expected: str, resource: str, divisor: str | None, needs: k8s.ResourceRequirements | None
) -> None:
    ref = k8s.ResourceFieldSelector(resource=resource, divisor=divisor)

    assert (("A", expected),) == env_of(var("A", resource_field_ref=ref), resources=needs)


def test_a_resource_of_another_container_and_the_pods_own_limit() -> None:
    ref = k8s.ResourceFieldSelector(container_name="other", resource="limits.memory", divisor="1Mi")
    one = container("a", env=(var("A", resource_field_ref=ref),))
    own = k8s.ResourceRequirements(limits={"memory": "64Mi"})
    there = k8s.ResourceRequirements(limits={"memory": "8Mi"})

    assert (("A", "8"),) == environment(pod(one, container("other", resources=there), resources=own), one, (), FACTS)
    assert (("A", "64"),) == environment(pod(one, container("other"), resources=own), one, (), FACTS)


@pytest.mark.parametrize("resource", ["limits", "cpu", "limits.", "usage.cpu"])
def test_a_resource_that_is_none_fails_the_container(resource: str) -> None:
    with pytest.raises(ConfigError, match=f"unsupported resource field '{resource}'"):
        env_of(var("A", resource_field_ref=k8s.ResourceFieldSelector(resource=resource)))


OBJECTS = {
    "ConfigMap": lambda optional: {
        "config_map_key_ref": k8s.ConfigMapKeySelector(name="o", key="k", optional=optional)
    },
    "Secret": lambda optional: {"secret_key_ref": k8s.SecretKeySelector(name="o", key="k", optional=optional)},
    "fileKeyRef": lambda optional: {
        "file_key_ref": k8s.FileKeySelector(key="k", path="p", volume_name="v", optional=optional)
    },
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_a_variable_from_an_object_says_not_yet_or_is_left_out_where_it_may_be(kind: str) -> None:
    with pytest.raises(ConfigError, match=f"env A: {kind}.* not supported yet"):
        env_of(var("A", **OBJECTS[kind](None)))

    assert (("B", "b"),) == env_of(var("A", **OBJECTS[kind](True)), var("B", "b"))


def test_all_variables_of_an_object_say_not_yet_or_are_left_out_where_they_may_be() -> None:
    for source, kind in (
        (
            lambda optional: k8s.EnvFromSource(config_map_ref=k8s.ConfigMapEnvSource(name="o", optional=optional)),
            "ConfigMap",
        ),
        (lambda optional: k8s.EnvFromSource(secret_ref=k8s.SecretEnvSource(name="o", optional=optional)), "Secret"),
    ):
        with pytest.raises(ConfigError, match=f"envFrom {kind} 'o' is not supported yet"):
            env_of(env_from=(source(False),))
        assert () == env_of(env_from=(source(True),))
