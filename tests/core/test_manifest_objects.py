"""ConfigMaps and Secrets in manifests: as they are served, and everything that may be wrong with them."""

import base64
import json

import pytest

from trikubelet.core.manifest import load_manifest
from trikubelet.core.manifest.load import Loaded
from trikubelet.core.manifest.objects import object_name
from trikubelet.model import k8s

HEAD = "apiVersion: v1\nkind: {}\nmetadata: {{name: o}}\n"
POD = "---\n{apiVersion: v1, kind: Pod, metadata: {name: one}, spec: {containers: [{name: main, image: a:1}]}}\n"


def load(text: str) -> Loaded:
    return load_manifest(text, "f.yaml", "node", "2026-11-21T09:00:00Z")


def faults(kind: str, rest: str) -> list[str]:
    return [str(fault).removeprefix("f.yaml:") for fault in load(HEAD.format(kind) + rest).faults]


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_objects_stand_next_to_pods_in_documents_and_lists() -> None:
    loaded = load(HEAD.format("ConfigMap") + "data: {a: b}\n" + POD + "---\n" + HEAD.format("Secret"))
    item = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "o"}})
    listed = load(f"kind: List\napiVersion: v1\nitems: [{item}]")

    assert () == loaded.faults + listed.faults
    assert ["ConfigMap default/o", "Secret default/o"] == [object_name(one) for one in loaded.objects]
    assert ["one-node"] == [pod.metadata.name for pod in loaded.pods]
    assert ["ConfigMap default/o"] == [object_name(one) for one in listed.objects]
    assert {"ConfigMap default/o", "one-node_default", "Secret default/o"} == loaded.origins.keys()


def test_a_secret_is_stored_as_the_api_would_its_plain_text_over_its_data() -> None:
    text = f"data: {{a: {encoded('x')}, b: {encoded('y')}}}\nstringData: {{b: plain, c: é}}\n"
    (held,) = load(HEAD.format("Secret") + text).objects

    assert isinstance(held, k8s.Secret)
    assert {"a": encoded("x"), "b": encoded("plain"), "c": encoded("é")} == held.data
    assert ({}, "Opaque", "default") == (held.string_data, held.type, held.metadata.namespace)


def test_a_namespace_that_is_written_is_kept() -> None:
    (held,) = load("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: o, namespace: there}\n").objects

    assert "ConfigMap there/o" == object_name(held)


@pytest.mark.parametrize(
    ("expected", "kind", "rest"),
    [
        ([], "ConfigMap", "data: {a.b-C_1: x}\nbinaryData: {b: /w==}\nimmutable: true"),
        ([], "Secret", "type: example.com/own\nstringData: {a: x}"),
        ([], "Secret", "type: kubernetes.io/tls\nstringData: {tls.crt: '', tls.key: ''}"),
        ([], "Secret", "type: kubernetes.io/basic-auth\nstringData: {password: x}"),
        ([], "Secret", "type: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: '{}'}"),
        (["4: data[a b]: Invalid value: \"a b\": must be letters, digits, '-', '_' and '.'"],
         "ConfigMap", "data: {'a b': x}"),
        (["5: data[..up]: Invalid value: \"..up\": must not be '.' or begin with '..'"],
         "Secret", "data:\n  ..up: ''"),
        (['5: binaryData[a]: Invalid value: "a": stands in data too'],
         "ConfigMap", "data: {a: x}\nbinaryData: {a: eA==}"),
        (['4: binaryData[a]: Invalid value: "<contents redacted>": must be base64; plain text goes into data'],
         "ConfigMap", "binaryData: {a: hello}"),
        (['4: data[a]: Invalid value: "<contents redacted>": must be base64; plain text goes into stringData'],
         "Secret", "data: {a: hunter2}"),
        (["4: type: Invalid value: \"kubernetes.io/service-account-token\": only an API server makes tokens of service "
          "accounts"], "Secret", "type: kubernetes.io/service-account-token"),
        (["4: data[tls.crt]: Required value: a Secret of type kubernetes.io/tls has it",
          "4: data[tls.key]: Required value: a Secret of type kubernetes.io/tls has it"],
         "Secret", "data: {}\ntype: kubernetes.io/tls"),
        (["4: data[username]: Required value: a Secret of type kubernetes.io/basic-auth has it, or password"],
         "Secret", "data: {}\ntype: kubernetes.io/basic-auth"),
        (['5: stringData[.dockercfg]: Invalid value: "<contents redacted>": must be JSON'],
         "Secret", "type: kubernetes.io/dockercfg\nstringData: {.dockercfg: x}"),
        (['5: data[.dockercfg]: Invalid value: "<contents redacted>": must be JSON'],
         "Secret", "type: kubernetes.io/dockercfg\ndata: {.dockercfg: Iv8i}"),
        (['4: dat: unknown field (did you mean "data"?)'], "ConfigMap", "dat: {a: b}"),
        (["4: data[a]: Invalid value: 1: must be a string (put it in quotes)"], "ConfigMap", "data: {a: 1}"),
        (["4: stringData[pin]: Invalid value: <contents redacted>: must be a string (put it in quotes)"],
         "Secret", "stringData: {pin: 1234}"),
        (['4: data: Invalid value: <contents redacted>: must be an object'], "Secret", "data: [hunter2]"),
        (["4: data: Invalid value: \"1048577 bytes\": must be no more than 1048576 bytes together"],
         "ConfigMap", f"data: {{a: {'x' * (1024 * 1024 + 1)}}}"),
    ],
)  # fmt: skip
def test_what_the_api_would_refuse_is_a_fault_that_shows_no_secret(expected: list[str], kind: str, rest: str) -> None:
    assert expected == faults(kind, rest)


def test_a_faulty_object_takes_nothing_with_it_and_the_second_of_a_name_is_a_fault() -> None:
    good, bad = HEAD.format("ConfigMap"), "---\n" + HEAD.format("Secret") + "data: {a: '%'}\n"
    loaded = load(good + bad + POD + "---\n" + good)

    assert ["ConfigMap default/o"] == [object_name(one) for one in loaded.objects]
    assert 1 == len(loaded.pods)
    assert [
        (8, "data[a]"),
        (14, "metadata.name"),
    ] == [(fault.line, fault.path) for fault in loaded.faults]


def test_a_bad_name_is_one() -> None:
    loaded = load("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Bad_Name, namespace: a/b, labels: {'-': x}}")

    assert ["metadata.name", "metadata.namespace", "metadata.labels"] == [fault.path for fault in loaded.faults]
