"""Whole manifests: lists and documents, a fault costs its own pod only, and everything wrong is said with its line."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.core.manifest import load_manifest
from trikubelet.core.manifest.load import NULL_CHARACTER, Loaded
from trikubelet.model import k8s

POD = "{{apiVersion: v1, kind: Pod, metadata: {{name: {}}}, spec: {{containers: [{{name: main, image: a:1}}]}}}}"

OF_UID = POD.replace("name: {}", "name: {}, uid: {}")


def load(text: str | bytes) -> Loaded:
    return load_manifest(text, "f.yaml", "node", "2026-11-21T09:00:00Z")


def names(loaded: Loaded) -> list[str]:
    return [pod.metadata.name.removesuffix("-node") for pod in loaded.pods]


def faults(text: str) -> list[str]:
    return [str(fault) for fault in load(text).faults]


def a(name: str) -> str:
    return POD.format(name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# nothing yet\n", []),
        ("---\n# nothing\n--- # yet\n...\n", []),
        (a("one"), ["one"]),
        (f"---\n{a('one')}\n---\n# nothing\n---\n{a('two')}\n", ["one", "two"]),
        (f"kind: PodList\napiVersion: v1\nitems:\n- {a('one')}\n- {a('two')}\n", ["one", "two"]),
        (f"kind: List\napiVersion: v1\nmetadata: {{}}\nitems: [{a('one')}]", ["one"]),
        ("kind: PodList\napiVersion: v1\nitems: [{metadata: {name: bare}, spec: {containers: [{name: a, image: b}]}}]",
         ["bare"]),
        ("kind: PodList\napiVersion: v1\nitems: []", []),
        (json.dumps(yaml.safe_load(a("one"))), ["one"]),
        (json.dumps(yaml.safe_load(a("one"))) + json.dumps(yaml.safe_load(a("two"))), ["one", "two"]),
    ],
)  # fmt: skip
def test_pods_come_one_by_one_in_lists_and_in_documents(text: str, expected: list[str]) -> None:
    loaded = load(text)

    assert () == loaded.faults
    assert expected == names(loaded)


def test_a_manifest_in_utf_16_is_the_same_pod() -> None:
    one = load_manifest(a("one"), "f.yaml", "node", "2026-01-01T00:00:00Z")

    assert one == load_manifest(a("one").encode("utf-16"), "f.yaml", "node", "2026-01-01T00:00:00Z")


@pytest.mark.parametrize("text", ["", "\n \n", b"", "\ufeff\n", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff\0\n"])
def test_a_file_with_nothing_in_it_was_cut_off_and_takes_no_pod_away(text: str | bytes) -> None:
    loaded = load_manifest(text, "f.yaml", "node", "2026-01-01T00:00:00Z")
    assert ["f.yaml: the file is empty (remove it if its pods shall go)"] == [str(fault) for fault in loaded.faults]


@pytest.mark.parametrize(
    ("text", "is_blank"),
    [
        ("", True),
        ("# nothing\n", True),
        ("---\n# nothing\n---\n", True),
        ("null", False),
        (".nan", False),
        ("kind: [", False),
        ("kind: PodList\napiVersion: v1\nitems: []", False),
        ("kind: List\napiVersion: v1\nitems: []", False),
    ],
)
def test_a_text_is_blank_when_there_is_nothing_in_it_but_comments(text: str, is_blank: bool) -> None:
    assert is_blank is load(text).is_blank


def test_a_value_that_cannot_be_is_one_fault_and_no_null() -> None:
    assert ["f.yaml:1: .nan is not a number JSON can hold (quote it if it is text)"] == faults(".nan")


def test_a_loaded_pod_is_ready_to_run() -> None:
    (pod,) = load(a("one")).pods

    assert ("one-node", "default", "node") == (pod.metadata.name, pod.metadata.namespace, pod.spec.node_name)
    assert ("Always", "IfNotPresent") == (pod.spec.restart_policy, pod.spec.containers[0].image_pull_policy)
    assert pod.metadata.uid


def test_what_is_filled_in_does_not_make_another_pod() -> None:
    """A later version with another default must not restart every static pod of a node."""
    (plain,) = load(a("one")).pods
    written = yaml.safe_load(a("one"))
    written["spec"]["restartPolicy"] = "Always"
    (spelt_out,) = load(yaml.safe_dump(written)).pods

    assert plain.spec == spelt_out.spec
    assert plain.metadata.uid != spelt_out.metadata.uid  # the hash is of what was written


@pytest.mark.parametrize(
    "bad",
    [
        "kind: [",
        "kind: Service\napiVersion: v1",
        "just words",
        a("Bad_Name"),
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: 3}",
        a("one"),
    ],
)
def test_a_bad_document_takes_no_other_with_it(bad: str) -> None:
    loaded = load(f"{a('one')}\n---\n{bad}\n---\n{a('two')}")

    assert ["one", "two"] == names(loaded)
    assert 1 <= len(loaded.faults)
    assert all(fault.line is not None and 3 <= fault.line <= 6 for fault in loaded.faults)


def test_a_bad_item_takes_no_other_with_it() -> None:
    items = "\n".join(f"- {item}" for item in (a("one"), "7", "{kind: Secret, apiVersion: v1}", a("Two"), a("three")))
    loaded = load(f"kind: PodList\napiVersion: v1\nitems:\n{items}")

    assert ["one", "three"] == names(loaded)
    assert ["items[1]", "items[2].kind", "items[3].metadata.name"] == [fault.path for fault in loaded.faults]
    assert [5, 6, 7] == [fault.line for fault in loaded.faults]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("apiVersion: v1\nmetadata: {}", 'f.yaml:1: kind: Required value (write "kind: Pod")'),
        (a("one").replace("apiVersion: v1, ", ""), 'f.yaml:1: apiVersion: Required value (write "apiVersion: v1")'),
        (a("one").replace("apiVersion: v1", "apiVersion: v2"),
         'f.yaml:1: apiVersion: Unsupported value: "v2": must be v1 (write "apiVersion: v1")'),
        ("apiVersion: v1\nkind: pod",
         'f.yaml:2: kind: Unsupported value: "pod": must be Pod or ConfigMap or Secret or PodList or List '
         '(did you mean "Pod"?)'),
        ("apiVersion: apps/v1\nkind: Deployment",
         'f.yaml:2: kind: Unsupported value: "Deployment": only a cluster makes pods of it (write the pod itself: '
         '"apiVersion: v1", "kind: Pod", "metadata: {name: NAME}", and spec.template.spec as its spec)'),
        ("apiVersion: v1\nkind: Gizmo",
         'f.yaml:2: kind: Unsupported value: "Gizmo": must be Pod or ConfigMap or Secret or PodList or List '
         "(remove it: a manifest can only have pods, ConfigMaps and Secrets)"),
        ("- a", 'f.yaml:1: a list where a Pod should stand (begin with "apiVersion: v1")'),
        ("null\n", 'f.yaml:1: null where a Pod should stand (begin with "apiVersion: v1")'),
        ("# nothing\n---\n~", 'f.yaml:3: null where a Pod should stand (begin with "apiVersion: v1")'),
        ("---\n!!null ''", 'f.yaml:2: null where a Pod should stand (begin with "apiVersion: v1")'),
        ("kind: PodList\napiVersion: v1\nitems: [null]",
         'f.yaml:3: items[0]: null where a Pod should stand (begin with "apiVersion: v1")'),
        ("kind: PodList\napiVersion: v1", "f.yaml:1: items: Required value: must be a list of pods"),
        (f"{a('one')}\n---\n{a('one')}",
         'f.yaml:3: metadata.name: Duplicate value: "one": an earlier one in this file has the same name and namespace '
         "(rename one of the two)"),
        (f"{OF_UID.format('a', 'u')}\n---\n{OF_UID.format('b', 'u')}",
         'f.yaml:3: metadata.uid: Duplicate value: "u": an earlier one in this file has the same UID '
         "(leave it out: each pod is given one)"),
        (OF_UID.format("a", "../../../victim"),
         'f.yaml:1: metadata.uid: Invalid value: "../../../victim": must be letters, digits, \'-\' and \'.\', '
         "with a letter or digit at both ends"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  containers:\n  - name: a\n    imag: a\n"
         "    image: b\n",
         'f.yaml:7: spec.containers[0].imag: unknown field (did you mean "image"?)'),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  containers:\n  - {name: a, image: z}\n  volumes:\n"
         "  - name: s\n    persistentVolumeClaim: {claimName: t}\n",
         "f.yaml:9: spec.volumes[0].persistentVolumeClaim: Forbidden: it lives in an API server, and a pod from a "
         "manifest must start without one (remove it)"),
    ],
)  # fmt: skip
def test_a_fault_names_file_line_field_and_remedy(text: str, expected: str) -> None:
    assert [expected] == faults(text)


@pytest.mark.parametrize(
    "kind", ["Deployment", "DaemonSet", "StatefulSet", "ReplicaSet", "Job", "CronJob", "deployment"]
)
def test_a_workload_comes_with_the_way_to_write_its_pod(kind: str) -> None:
    (fault,) = load(f"apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: web}}\nspec: {{replicas: 3}}").faults

    template = "spec.jobTemplate.spec.template" if kind == "CronJob" else "spec.template"
    assert fault.remedy.startswith(
        f'write the pod itself: "apiVersion: v1", "kind: Pod", "metadata: {{name: web}}", and {template}.spec as its '
        "spec; 3 replicas are as many pods, each with a name of its own"
    )
    assert ("schedules are not supported" in fault.remedy) is (kind == "CronJob")


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        ("Service", "hostPort, or the pod hostNetwork: true"),
        ("Ingress", "run a reverse proxy"),
        ("Namespace", "metadata.namespace in the pod is enough"),
        ("PersistentVolumeClaim", "mount a hostPath"),
        ("ServiceAccount", "no account in a cluster"),
        ("NetworkPolicy", "firewall"),
        ("HorizontalPodAutoscaler", "only a cluster's control plane reads it"),
        ("Kustomization", "kubectl kustomize"),
    ],
)
def test_other_objects_of_a_cluster_come_with_advice_that_fits_them(kind: str, advice: str) -> None:
    (fault,) = load(f"kind: List\napiVersion: v1\nitems: [{{kind: {kind}, spec: {{}}}}]").faults

    assert "items[0].kind" == fault.path
    assert advice in fault.remedy
    assert "did you mean" not in fault.remedy


def test_a_compose_file_is_recognised() -> None:
    (fault,) = load('version: "3"\nservices:\n  web: {image: nginx}\n').faults

    assert ("services", 2, "this is a compose file, and a node runs pods") == (fault.path, fault.line, fault.problem)
    assert "spec.containers" in fault.remedy
    assert ["kind"] == [fault.path for fault in load("services: [a]").faults]


@pytest.mark.parametrize("missing", ["apiVersion: v1", "kind: Pod"])
def test_a_pod_that_does_not_say_what_it_is_has_its_other_faults_listed_too(missing: str) -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: X}\nspec:\n  containers:\n  - {name: a, imag: b}\n"

    loaded = load(text.replace(f"{missing}\n", ""))

    assert [missing.partition(":")[0], "metadata.name", "spec.containers[0].imag", "spec.containers[0].image"] == [
        fault.path for fault in loaded.faults
    ]
    assert () == loaded.pods


def test_what_does_not_say_what_it_is_is_not_kept() -> None:
    loaded = load(f"{a('one').replace('apiVersion: v1, ', '')}\n---\nkind: ConfigMap\nmetadata: {{name: c}}")

    assert ((), ()) == (loaded.pods, loaded.objects)
    assert ["apiVersion", "apiVersion"] == [fault.path for fault in loaded.faults]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("y", 'Invalid value: y: must be a string (put it in quotes: "y")'),
        ("No", 'Invalid value: No: must be a string (put it in quotes: "No")'),
        ("0644", 'Invalid value: 0644: must be a string (put it in quotes: "0644")'),
        ("1.50", 'Invalid value: 1.50: must be a string (put it in quotes: "1.50")'),
        ("true", "Invalid value: true: must be a string (put it in quotes)"),
    ],
)
def test_a_value_that_yaml_makes_something_else_of_is_shown_as_it_was_written(written: str, expected: str) -> None:
    text = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: x, labels: {{a: {written}}}}}\nspec:\n  containers: []\n"
    listed = f"kind: List\napiVersion: v1\nitems:\n- {a('one')[:-1]}, metadata: {{labels: {{a: {written}}}}}}}"

    assert f"f.yaml:3: metadata.labels[a]: {expected}" in faults(text)
    assert any(
        f"items[0].metadata.labels[a]: {expected}" in one
        for one in faults(listed.replace("metadata: {name: one}, ", ""))
    )


def test_the_same_name_in_another_namespace_is_another_pod() -> None:
    other = yaml.safe_load(a("one"))
    other["metadata"]["namespace"] = "other"

    assert ["one", "one"] == names(load(f"{a('one')}\n---\n{yaml.safe_dump(other)}"))


def test_all_faults_of_shape_and_sense_are_reported_at_once_and_none_twice() -> None:
    text = """\
apiVersion: v1
kind: Pod
metadata: {name: Web}
spec:
  restartPolicy: always
  hostNetwork: "yes"
  containers:
  - name: a
    image: 3
    ports: [{containerPort: eighty}]
    resources: {limits: {cpu: lots, gpu: 1}, requests: {memory: -1}}
"""
    assert [
        (3, "metadata.name"),
        (5, "spec.restartPolicy"),
        (6, "spec.hostNetwork"),
        (9, "spec.containers[0].image"),
        (10, "spec.containers[0].ports[0].containerPort"),
        (11, "spec.containers[0].resources.limits[cpu]"),
        (11, "spec.containers[0].resources.limits[gpu]"),
        (11, "spec.containers[0].resources.requests[memory]"),
    ] == sorted((fault.line or 0, fault.path) for fault in load(text).faults)


def test_a_misspelt_list_of_volumes_is_not_blamed_on_the_mounts() -> None:
    text = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - {name: a, image: b, volumeMounts: [{name: data, mountPath: /a}]}
  volumess: [{name: data}]
"""
    assert ['f.yaml:7: spec.volumess: unknown field (did you mean "volumes"?)'] == faults(text)


@pytest.mark.parametrize("which", ["image: b:1, image: b:2", "image: b:2, image: b:1"])
def test_a_pod_with_a_key_given_twice_does_not_run_with_either(which: str) -> None:
    doubted = f"{{apiVersion: v1, kind: Pod, metadata: {{name: two}}, spec: {{containers: [{{name: a, {which}}}]}}}}"
    listed = f"kind: List\napiVersion: v1\nitems:\n- {a('three')}\n- {doubted}"
    loaded = load(f"{a('one')}\n---\n{doubted}\n---\n{listed}")

    assert ["one", "three"] == names(loaded)
    assert ["spec.containers[0].image", "items[1].spec.containers[0].image"] == [f.path for f in loaded.faults]


def test_a_number_that_cannot_be_leaves_out_its_pod_and_hides_none_of_its_faults() -> None:
    ports = "ports: [{containerPort: 1e400}], imagePullPolicy: Sometimes"
    spec = f"{{containers: [{{name: .nan, image: b, {ports}}}]}}"
    wrong = f"{{apiVersion: v1, kind: Pod, metadata: {{name: two}}, spec: {spec}}}"
    silent = wrong.replace("two", "three").replace(ports, "resources: {limits: {cpu: .inf}}").replace(".nan", "a")
    loaded = load(f"{a('one')}\n---\n{wrong}\n---\n{silent}")

    assert ["one"] == names(loaded)
    assert [
        *("spec.containers[0].name", "spec.containers[0].ports[0].containerPort", "spec.containers[0].imagePullPolicy"),
        "spec.containers[0].resources.limits.cpu",
    ] == [fault.path for fault in loaded.faults]


def test_a_number_that_cannot_be_leaves_out_each_pod_that_takes_it_up_by_an_alias() -> None:
    def limited(name: str, cpu: str) -> str:
        spec = f"{{containers: [{{name: a, image: b, resources: {{limits: {{cpu: {cpu}}}}}}}]}}"
        return f"- {{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {spec}}}"

    items = "\n".join((limited("one", "&x .nan"), limited("two", "*x"), limited("three", "1")))
    loaded = load(f"kind: List\napiVersion: v1\nitems:\n{items}")

    assert ["three"] == names(loaded)
    assert [f"items[{n}].spec.containers[0].resources.limits.cpu" for n in (0, 1)] == [f.path for f in loaded.faults]


def test_null_character_is_a_fault_in_every_text_for_a_process() -> None:
    text = """\
apiVersion: v1
kind: Pod
metadata: {name: web, annotations: {said: "a\\0b"}}
spec:
  containers:
  - name: "a\\0"
    image: "ho\\0st"
    command: [sh, "10\\0"]
    env: [{name: A, value: "secret\\0"}]
    lifecycle: {preStop: {exec: {command: ["\\0"]}}}
"""
    found = load(text).faults

    assert [
        *((6, "spec.containers[0].name"), (7, "spec.containers[0].image"), (8, "spec.containers[0].command[1]")),
        (9, "spec.containers[0].env[0].value"),
        (10, "spec.containers[0].lifecycle.preStop.exec.command[0]"),
    ] == [(fault.line, fault.path) for fault in found]
    assert [NULL_CHARACTER] * 4 == [fault.problem for fault in found[1:]]


def test_a_list_with_two_lists_of_items_gives_no_pod() -> None:
    loaded = load(f"kind: List\napiVersion: v1\nitems: [{a('one')}]\nitems: [{a('two')}]")

    assert [] == names(loaded)
    assert ["items"] == [fault.path for fault in loaded.faults]


@given(st.one_of(st.text(max_size=200), st.binary(max_size=200)))
def test_no_text_at_all_raises(text: str | bytes) -> None:
    load(text)


_JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_FIELDS = ["metadata", "spec", "containers", "volumes", "name", "image", "ports", "env", "resources", "limits", "items"]


@given(st.data())
def test_no_shape_raises_wherever_the_junk_is_put(data: st.DataObject) -> None:
    value = yaml.safe_load(a("one"))
    value["spec"] |= {"volumes": [{"name": "v", "emptyDir": {}}], "resources": {"limits": {"cpu": 1}}}
    value["spec"]["containers"][0] |= {"ports": [{"containerPort": 1}], "env": [{"name": "A", "value": "b"}]}
    place = value
    for _ in range(data.draw(st.integers(0, 4))):
        steps = list(place) if isinstance(place, dict) else list(range(len(place))) if isinstance(place, list) else []
        inner = [step for step in steps if isinstance(place[step], (dict, list)) and place[step]]
        if not inner:
            break
        place = place[data.draw(st.sampled_from(inner))]
    if isinstance(place, dict):
        place[data.draw(st.sampled_from([*place, *_FIELDS]))] = data.draw(_JUNK)
    else:
        place.append(data.draw(_JUNK))

    loaded = load(json.dumps(value))
    assert len(loaded.pods) + bool(loaded.faults) >= 1


def test_a_pods_limit_that_does_not_hold_what_its_containers_ask_for_is_refused_where_it_stands() -> None:
    """The pod's request is derived here, from the containers, and has no line that could be named."""
    asks = "image: a:1, resources: {requests: {cpu: 700m}}"
    text = f"""
apiVersion: v1
kind: Pod
metadata: {{name: a}}
spec:
  resources: {{limits: {{cpu: 1}}}}
  containers: [{{name: b, {asks}}}, {{name: c, {asks}}}]
"""
    problem = "Invalid value: 1: must be no less than what the containers request together"

    assert [f"f.yaml:6: spec.resources.limits[cpu]: {problem}"] == faults(text)


def test_a_hook_sleeps_for_no_time_where_it_does_not_say_for_how_long() -> None:
    text = a("one").replace("image: a:1", "image: a:1, lifecycle: {preStop: {sleep: {}}}")

    (pod,) = load(text).pods
    hook = pod.spec.containers[0].lifecycle
    assert hook is not None
    assert k8s.LifecycleHandler(sleep=k8s.SleepAction(seconds=0)) == hook.pre_stop


@pytest.mark.parametrize(
    "text",
    [
        "kind: Pod\napiVersion: v1\nspec:\n  containers:\n" + "  - {name: .inf}\n" * 20_000,
        "kind: PodList\napiVersion: v1\nitems:\n" + "- {kind: Pod, kind: Pod}\n" * 20_000,
    ],
    ids=["values that cannot be", "keys given twice"],
)
def test_faults_by_the_thousand_take_no_time_squared(text: str) -> None:
    """Each part of a document asks whether it is among what is doubted: looking through all would take hours."""
    loaded = load(text)

    assert () == loaded.pods
    assert 20_000 <= len(loaded.faults)
