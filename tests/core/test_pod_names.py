"""Names, labels and paths, to the letter: other programs look for them, and so do we after a restart."""

import pytest

from core.podkit import container, pod, sidecar
from trikubelet.core import names
from trikubelet.model import k8s
from trikubelet.model.objects import ObjectRef

POD = pod("a", init=("i",), meta={"labels": {"app": "web"}})


def annotated(**annotations: str) -> k8s.Pod:
    return pod("a", meta={"annotations": annotations})


def test_sandbox_has_the_labels_and_the_identity_of_its_pod() -> None:
    assert {
        "app": "web",
        "io.kubernetes.pod.name": "pod",
        "io.kubernetes.pod.namespace": "default",
        "io.kubernetes.pod.uid": "12345678",
    } == names.pod_labels(POD)


def test_a_pods_labels_cannot_make_it_another_pod() -> None:
    impostor = pod("a", meta={"labels": {"io.kubernetes.pod.uid": "other"}})
    assert "12345678" == names.uid_from_labels(names.pod_labels(impostor))


def test_container_has_labels_of_its_pod_and_name() -> None:
    assert {
        "io.kubernetes.pod.name": "pod",
        "io.kubernetes.pod.namespace": "default",
        "io.kubernetes.pod.uid": "12345678",
        "io.kubernetes.container.name": "a",
    } == names.container_labels(POD, "a")


def test_what_no_kubelet_labelled_has_no_uid() -> None:
    assert "" == names.uid_from_labels({"io.kubernetes.pod.name": "pod"})


def test_log_paths() -> None:
    directory = names.log_directory_name("default", "pod", "12345678")
    assert ("default_pod_12345678", "12345678") == (directory, names.uid_of_log_directory(directory))
    assert "12_34" == names.uid_of_log_directory("default_pod_12_34")  # never that of a pod "34"
    assert "a/3.log" == names.log_path("a", 3)


def test_a_uid_has_no_underscore() -> None:
    with pytest.raises(ValueError, match=r"must be letters, digits, '-' and '\.'"):
        names.path_uid("my_pod")


def test_the_link_to_a_log_names_pod_namespace_container_and_id() -> None:
    assert "pod_default_a-0123.log" == names.log_link_name(POD, "a", "0123")


def test_the_link_to_a_log_keeps_its_id_and_fits_a_file_name() -> None:
    long = pod("a", meta={"name": "p" * 253, "namespace": "n" * 63})
    link = names.log_link_name(long, "c" * 63, "f" * 64)
    assert (255, True, True) == (len(link), link.startswith("ppp"), link.endswith("-" + "f" * 64 + ".log"))


def test_full_name_and_reference() -> None:
    assert "pod_default" == names.full_name(POD)
    assert ObjectRef("Pod", "pod", "default", "12345678", "") == names.object_ref(POD)
    assert "spec.containers{a}" == names.object_ref(POD, "a").field_path


@pytest.mark.parametrize(
    ("path", "container"),
    [
        ("spec.containers{app}", "app"),
        ("spec.initContainers{setup}", "setup"),
        ("spec.initContainers{proxy}", "proxy"),
        ("spec.ephemeralContainers{debugger}", "debugger"),
        ("spec.containers{unknown}", "unknown"),
        ("", ""),
    ],
)
def test_reference_names_the_field_that_the_container_is_in(path: str, container: str) -> None:
    it = pod("app", init=("setup", sidecar("proxy")), ephemeral=("debugger",))
    assert path == names.object_ref(it, container).field_path


@pytest.mark.parametrize(
    ("source", "is_static", "it"),
    [
        ("api", False, annotated()),
        ("api", False, annotated(**{"kubernetes.io/config.source": "api"})),
        ("file", True, annotated(**{"kubernetes.io/config.source": "file"})),
        ("http", True, annotated(**{"kubernetes.io/config.source": "http"})),
    ],
)
def test_where_a_pod_comes_from(source: str, is_static: bool, it: k8s.Pod) -> None:
    assert (source, is_static) == (names.source_of(it), names.is_static(it))


@pytest.mark.parametrize(
    ("expected", "it"),
    [
        pytest.param(False, pod("a"), id="any pod"),
        pytest.param(False, pod("a", priority=1_999_999_999), id="an important one"),
        pytest.param(True, pod("a", priority=2_000_000_000), id="one of system-critical priority"),
        pytest.param(True, annotated(**{"kubernetes.io/config.source": "file"}), id="a static one"),
        pytest.param(True, annotated(**{"kubernetes.io/config.mirror": "1"}), id="a mirror"),
    ],
)
def test_what_the_node_must_not_sacrifice(expected: bool, it: k8s.Pod) -> None:
    assert expected == names.is_critical(it)


def test_all_containers_are_the_init_ones_and_then_the_regular_ones() -> None:
    assert ["i", "a"] == [c.name for c in names.all_containers(POD)]


def test_an_ephemeral_container_becomes_an_ordinary_one() -> None:
    ephemeral = k8s.EphemeralContainer(
        name="debug", image="image:1", command=("sh",), target_container_name="a", tty=True
    )
    assert container("debug", command=("sh",), tty=True) == names.as_container(ephemeral)


def test_an_orphan_is_known_by_its_labels_alone_and_has_nothing_to_run() -> None:
    orphan = names.orphan_pod("1", "gone", "default")
    assert ("gone_default", "1", ()) == (names.full_name(orphan), orphan.metadata.uid, orphan.spec.containers)
