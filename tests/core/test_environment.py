"""A container's environment, variable by variable."""

import base64
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.podkit import container, pod
from trikubelet.core.containers import ConfigError, NodeFacts, downward
from trikubelet.core.containers.downward import PodFields
from trikubelet.core.containers.env_file import EnvFile
from trikubelet.core.containers.environment import EnvReferences, EnvSources, environment, references
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
    return environment(pod(one, meta=META), one, IPS, FACTS, EnvSources(services=services or {}))


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


@pytest.mark.parametrize(
    ("value", "quoted"),
    [
        ('tab\t "q" \\', r'"tab\t \"q\" \\"'),
        ("\a\b\f\r\n\v", r'"\a\b\f\r\n\v"'),
        ("\x00\x1f\x7f", r'"\x00\x1f\x7f"'),
        ("üñ 中", '"üñ 中"'),
        ("\u00a0\u2028\U000e0001", r'"\u00a0\u2028\U000e0001"'),
    ],
)
def test_a_listing_is_quoted_as_go_does(value: str, quoted: str) -> None:
    it = pod(meta={"uid": "u", "labels": {"app": value}})

    assert f"app={quoted}" == PodFields(it, (), NodeFacts("n")).value("metadata.labels")


def test_a_field_is_not_expanded() -> None:
    one = container(
        "a", env=(var("A", "x"), var("B", field_ref=k8s.ObjectFieldSelector(field_path="metadata.labels['l']")))
    )

    made = environment(pod(one, meta={"labels": {"l": "$(A)"}}), one, (), FACTS)

    assert ("B", "$(A)") == made[1]


def test_a_pod_on_the_host_network_has_the_nodes_addresses_before_it_runs() -> None:
    assert "192.0.2.1" == PodFields(pod(host_network=True), (), FACTS).value("status.podIP")
    assert "" == PodFields(pod(), (), FACTS).value("status.podIP")
    for path, of in (("status.hostIP", pod()), ("status.hostIPs", pod()), ("status.podIP", pod(host_network=True))):
        with pytest.raises(ValueError, match="the node has no address yet"):
            PodFields(of, (), NodeFacts("n")).value(path)
    assert "" == PodFields(pod(), (), NodeFacts("n")).value("status.podIP")


def test_the_scheduled_name_of_the_node_goes_before_our_own() -> None:
    assert "other" == PodFields(pod(node_name="other"), (), FACTS).value("spec.nodeName")


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


def test_a_container_that_does_not_exist_has_no_resources() -> None:
    with pytest.raises(ConfigError, match="container other not found"):
        env_of(var("A", resource_field_ref=k8s.ResourceFieldSelector(container_name="other", resource="limits.cpu")))


def test_a_limit_of_nothing_is_no_limit() -> None:
    ref = k8s.ResourceFieldSelector(resource="limits.memory", divisor="1Gi")
    none = k8s.ResourceRequirements(limits={"memory": "0"})

    assert (("A", "4"),) == env_of(var("A", resource_field_ref=ref), resources=none)


def encoded(text: str | bytes) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


META_O = k8s.ObjectMeta(name="o", namespace="default")
SOURCES = EnvSources(
    config_maps={
        "o": k8s.ConfigMap(metadata=META_O, data={"a": "$(B)", "1.b-c": "", "B": "cm"}, binary_data={"x": "/w=="}),
        "gone": None,
    },
    secrets={"o": k8s.Secret(metadata=META_O, data={"a": encoded("s"), "B": encoded("sec")}), "gone": None},
    files={
        ("v", "p"): EnvFile({"K": "from a file", "EMPTY": ""}),
        ("v", "bad"): EnvFile({"K": "v"}, "line 2: value must be enclosed in single quotes"),
        ("v", "huge"): OSError(27, "larger than 65536 bytes"),
        ("v", "latin"): EnvFile(wrong="it is not UTF-8"),
        ("v", "gone"): None,
    },
    services={"SVC_SERVICE_HOST": "10.0.0.1"},
)
PATHS = {"v": "/pods/v"}


def config(name: str = "o", key: str = "a", optional: bool | None = None) -> dict[str, Any]:
    return {"config_map_key_ref": k8s.ConfigMapKeySelector(name=name, key=key, optional=optional)}


def secret(name: str = "o", key: str = "a", optional: bool | None = None) -> dict[str, Any]:
    return {"secret_key_ref": k8s.SecretKeySelector(name=name, key=key, optional=optional)}


def file(path: str = "p", key: str = "K", optional: bool | None = None, volume: str = "v") -> dict[str, Any]:
    return {"file_key_ref": k8s.FileKeySelector(key=key, path=path, volume_name=volume, optional=optional)}


def all_of(kind: str, name: str = "o", prefix: str = "", optional: bool | None = None) -> k8s.EnvFromSource:
    if kind == "configmap":
        return k8s.EnvFromSource(config_map_ref=k8s.ConfigMapEnvSource(name=name, optional=optional), prefix=prefix)
    return k8s.EnvFromSource(secret_ref=k8s.SecretEnvSource(name=name, optional=optional), prefix=prefix)


def found(*variables: k8s.EnvVar, source: str = "api", **fields: Any) -> dict[str, str]:
    one = container("a", env=variables, **fields)
    of = pod(one, meta={"annotations": {"kubernetes.io/config.source": source}})
    return dict(environment(of, one, IPS, FACTS, SOURCES, PATHS))


@pytest.mark.parametrize(
    ("expected", "source"),
    [("$(B)", config()), ("s", secret()), ("from a file", file())],
)
def test_a_variable_of_an_object_or_a_file_is_not_expanded(expected: str, source: dict[str, Any]) -> None:
    assert expected == found(var("B", "b"), var("A", **source))["A"]


@pytest.mark.parametrize("source", [config("gone", optional=True), config(key="z", optional=True),
                                    secret("gone", optional=True), secret(key="z", optional=True),
                                    file("gone", optional=True), file(key="z", optional=True),
                                    file(key="EMPTY", optional=True)])  # fmt: skip
def test_what_is_optional_is_left_out_and_hides_nothing(source: dict[str, Any]) -> None:
    """The variable of that name that was there stays, and later ones see it."""
    made = found(var("B", **source), var("A", "$(B)"), env_from=(all_of("configmap"),))

    assert ("cm", "cm") == (made["B"], made["A"])


@pytest.mark.parametrize(
    ("expected", "source"),
    [
        ('configmap "gone" not found', config("gone")),
        ('secret "gone" not found', secret("gone", optional=False)),
        ("couldn't find key z in ConfigMap default/o", config(key="z")),
        ("couldn't find key x in ConfigMap default/o", config(key="x")),
        ("couldn't find key z in Secret default/o", secret(key="z")),
        ('environment variable key "z" not found in file "/pods/v/p"', file(key="z")),
        ('environment variable key "EMPTY" not found in file "/pods/v/p"', file(key="EMPTY")),
        ('couldn\'t parse env file "gone" of volume "v": there is no such file', file("gone")),
        (
            'couldn\'t parse env file "bad" of volume "v": line 2: value must be enclosed in single quotes',
            file("bad", key="L"),
        ),
        ('couldn\'t parse env file "huge" of volume "v": larger than 65536 bytes', file("huge", optional=True)),
        ('couldn\'t parse env file "latin" of volume "v": it is not UTF-8', file("latin")),
        ('cannot find the volume "w" referenced by FileKeyRef', file(volume="w", optional=True)),
    ],
)
def test_what_is_missing_fails_the_container_in_upstreams_words(expected: str, source: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as failed:
        found(var("A", **source))
    assert (expected, "CreateContainerConfigError", "a") == (
        failed.value.message,
        failed.value.reason,
        failed.value.container,
    )


def test_all_variables_of_objects_come_first_and_the_later_counts() -> None:
    both = (all_of("configmap"), all_of("secret"))

    assert {"a": "s", "1.b-c": "", "B": "sec", "SVC_SERVICE_HOST": "10.0.0.1"} == found(env_from=both)
    assert {"a": "$(B)", "1.b-c": "", "B": "cm", "SVC_SERVICE_HOST": "10.0.0.1"} == found(env_from=both[::-1])
    assert "sec and mine" == found(var("B", "$(B) and mine"), env_from=both)["B"]
    assert {"P_a", "P_B"} <= found(env_from=(all_of("secret", prefix="P_"),)).keys()


@pytest.mark.parametrize("kind", ["configmap", "secret"])
def test_a_whole_object_that_is_not_there_fails_the_container_unless_it_may(kind: str) -> None:
    assert {"SVC_SERVICE_HOST"} == found(env_from=(all_of(kind, "gone", optional=True),)).keys()
    with pytest.raises(ConfigError) as failed:
        found(env_from=(all_of(kind, "gone"),))
    assert f'{kind} "gone" not found' == failed.value.message
    with pytest.raises(ConfigError) as failed:
        found(env_from=(all_of(kind, "gone"),), source="file")
    assert f'{kind} "gone" not found among the manifests, in namespace "default"' == failed.value.message


def test_a_secret_that_is_no_text_can_be_no_variable_and_is_not_shown() -> None:
    held = k8s.Secret(metadata=META_O, data={"k": encoded(b"\xff\x00")})
    sources = EnvSources(secrets={"o": held})
    for fields in ({"env": (var("A", **secret(key="k")),)}, {"env_from": (all_of("secret"),)}):
        one = container("a", **fields)
        with pytest.raises(ConfigError) as failed:
            environment(pod(one), one, IPS, FACTS, sources)
        assert 'the value of key k of secret "o" is not text' == failed.value.message
    assert held.data["k"] not in repr(sources)


def test_a_container_refers_to_each_object_once_in_the_order_of_its_spec() -> None:
    one = container(
        "a",
        env=(
            var("A", **config("p")),
            var("B", **config()),
            var("C", **secret()),
            var("D", **file()),
            var("E", **file()),
            var("F", **file(key="L")),
            var("G", **file("q")),
        ),
        env_from=(all_of("configmap"), all_of("secret", "q"), all_of("configmap", "r")),
    )

    assert EnvReferences(
        ("o", "r", "p"), ("q", "o"), {("v", "p"): {"K": None, "L": None}, ("v", "q"): {"K": None}}
    ) == references(one)
    assert EnvReferences() == references(container("a", env=(var("A", "b"),)))


NAMES = st.sampled_from("ABC")
OBJECTS = st.dictionaries(NAMES, st.sampled_from(["1", "$(A)", ""]), max_size=3)


VARIABLES = st.lists(st.tuples(NAMES, st.sampled_from(["x", "$(A)", "$(B)-$(C)"])), max_size=4)


@given(st.lists(OBJECTS, max_size=3), VARIABLES, st.dictionaries(NAMES, st.just("svc"), max_size=3))
def test_whatever_is_given_the_last_word_counts_and_each_sees_those_before_it(
    objects: list[dict[str, str]], variables: list[tuple[str, str]], services: dict[str, str]
) -> None:
    maps = {str(n): k8s.ConfigMap(metadata=META_O, data=data) for n, data in enumerate(objects)}
    one = container(
        "a", env=tuple(var(*pair) for pair in variables), env_from=tuple(all_of("configmap", name) for name in maps)
    )
    made = environment(pod(one), one, (), FACTS, EnvSources(config_maps=maps, services=services))

    known: dict[str, str] = {}
    for data in objects:
        known = known | data
    for name, text in variables:
        seen = services | known
        known[name] = re.sub(r"\$\((\w)\)", lambda match, seen=seen: seen.get(match[1], match[0]), text)
    assert services | known == dict(made)
    assert len(made) == len(dict(made))


MIB = 1024**2
LARGE = k8s.ConfigMap(metadata=k8s.ObjectMeta(name="large"), data={f"k{n}": "z" * MIB for n in range(8)})


@pytest.mark.parametrize(
    ("named", "fields"),
    [
        pytest.param(
            "env E5",
            {"env": (var("E0", "x" * 200), *(var(f"E{n}", f"$(E{n - 1})" * 8) for n in range(1, 7)))},
            id="variables that name the one before",
        ),
        pytest.param("env A", {"env": (var("A", "x" * MIB), *[var("A", "$(A)$(A)")] * 6)}, id="one that grows"),
        pytest.param(
            "env F27",
            {
                "env": [
                    var(f"F{n}", field_ref=k8s.ObjectFieldSelector(field_path="metadata.annotations"))
                    for n in range(100)
                ]
            },
            id="the annotations once for each",
        ),
        pytest.param(
            "envFrom[0]",
            {"env_from": (k8s.EnvFromSource(config_map_ref=k8s.ConfigMapEnvSource(name="large")),)},
            id="a large object",
        ),
        pytest.param(
            "envFrom[2]",
            {
                "env_from": [k8s.EnvFromSource(prefix="p" * 10_000, config_map_ref=k8s.ConfigMapEnvSource(name="many"))]
                * 3
            },
            id="a long prefix before every name",
        ),
        pytest.param(
            "env K6",
            {
                "env": [
                    var(f"K{n}", config_map_key_ref=k8s.ConfigMapKeySelector(name="large", key="k0")) for n in range(10)
                ]
            },
            id="one key once for each",
        ),
    ],
)
def test_a_spec_that_asks_for_more_than_a_program_can_be_given_fails_its_container(
    named: str, fields: dict[str, Any]
) -> None:
    one = container("a", **fields)
    many = k8s.ConfigMap(metadata=k8s.ObjectMeta(name="many"), data={f"k{n}": "" for n in range(300)})
    sources = EnvSources(config_maps={"large": LARGE, "many": many})

    with pytest.raises(ConfigError) as failed:
        environment(pod(one, meta={"annotations": {"a": "y" * 230_000}}), one, IPS, FACTS, sources)
    what = "the container's variables, command, arguments and sub-paths are larger than 6291456 bytes"
    assert (f"{named}: with it {what}", "a") == (failed.value.message, failed.value.container)


def test_the_annotations_are_listed_once_and_only_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[dict[str, str]] = []
    monkeypatch.setattr(downward, "_listing", lambda values: listed.append(values) or "listed")

    def asked(path: str) -> list[k8s.EnvVar]:
        return [var(f"{path}{n}", field_ref=k8s.ObjectFieldSelector(field_path=path)) for n in range(9)]

    env_of(*asked("metadata.name"), *asked("metadata.annotations['note']"))
    assert [] == listed
    env_of(*asked("metadata.annotations"), *asked("metadata.labels"))
    assert [META["annotations"], META["labels"]] == listed
