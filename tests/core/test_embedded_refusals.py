"""What the embedded runtime refuses is named with its path and line before anything runs, and nothing else is."""

import re
from pathlib import Path
from typing import Any

import pytest

from core.podkit import container, pod
from trikubelet.core.containers.embedded_refusals import REFUSED, host_image, refused
from trikubelet.core.manifest import load_manifest
from trikubelet.core.support.pods import PODS
from trikubelet.model import k8s

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "manifests"


def mine(name: str = "a", **fields: Any) -> k8s.Container:
    return container(name, **{"image": "host", "command": ("run",), **fields})


def localhost(**fields: Any) -> dict[str, Any]:
    return {"security_context": k8s.SecurityContext(**fields)}


ARMOR = k8s.AppArmorProfile(type="Localhost", localhost_profile="x")
SECCOMP = k8s.SeccompProfile(type="Localhost", localhost_profile="x.json")
IN_CONTAINERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("image", {"image": "nginx"}),
    ("command", {"command": ()}),
    ("tty", {"tty": True}),
    (
        "volumeMounts[0].mountPropagation",
        {"volume_mounts": (k8s.VolumeMount(name="v", mount_path="/v", mount_propagation="Bidirectional"),)},
    ),
    ("securityContext.appArmorProfile.type", localhost(app_armor_profile=ARMOR)),
    ("securityContext.seccompProfile.type", localhost(seccomp_profile=SECCOMP)),
)
IN_PODS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("securityContext.appArmorProfile.type", {"security_context": k8s.PodSecurityContext(app_armor_profile=ARMOR)}),
    ("securityContext.seccompProfile.type", {"security_context": k8s.PodSecurityContext(seccomp_profile=SECCOMP)}),
    ("hostPID", {"host_pid": True}),
    ("hostUsers", {"host_users": False}),
    ("runtimeClassName", {"runtime_class_name": "kata"}),
    (
        "securityContext.sysctls",
        {"security_context": k8s.PodSecurityContext(sysctls=(k8s.Sysctl(name="a", value="1"),))},
    ),
    ("shareProcessNamespace", {"share_process_namespace": True}),
    ("volumes[0].image", {"volumes": (k8s.Volume(name="v", image=k8s.ImageVolumeSource(reference="x")),)}),
)
DEBUGGER = k8s.EphemeralContainer(name="d", image="host", command=("sh",), target_container_name="a")


@pytest.mark.parametrize(("path", "fields"), IN_CONTAINERS)
def test_a_containers_field_is_named_wherever_the_container_stands(path: str, fields: dict[str, Any]) -> None:
    it = pod(mine(), mine("b", **fields), init=(mine("i", **fields),))

    assert [f"spec.initContainers[0].{path}", f"spec.containers[1].{path}"] == [one.path for one in refused(it)]


@pytest.mark.parametrize(("path", "fields"), IN_PODS)
def test_a_pods_field_is_named(path: str, fields: dict[str, Any]) -> None:
    assert [f"spec.{path}"] == [one.path for one in refused(pod(mine(), **fields))]


def test_a_debugger_that_looks_at_another_containers_processes_is_named() -> None:
    it = pod(mine(), ephemeral=(DEBUGGER,))

    assert ["spec.ephemeralContainers[0].targetContainerName"] == [one.path for one in refused(it)]


def test_the_samples_above_leave_out_no_row() -> None:
    sampled = {path for path, _ in IN_PODS} | {f"containers[].{path}" for path, _ in IN_CONTAINERS}
    sampled.add("ephemeralContainers[].targetContainerName")

    assert {row.path for row in REFUSED} == {re.sub(r"\[0\]", "[]", path) for path in sampled}


def test_what_it_can_run_is_not_named() -> None:
    plain = mine(
        volume_mounts=(k8s.VolumeMount(name="v", mount_path="/v", mount_propagation="HostToContainer"),),
        **localhost(seccomp_profile=k8s.SeccompProfile(type="RuntimeDefault"), privileged=True),
    )
    arguments = mine("b", command=(), args=("run",))
    it = pod(plain, arguments, host_network=True, host_ipc=True, host_users=True, share_process_namespace=False)

    assert () == refused(it)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_the_examples_are_not_refused(path: Path) -> None:
    loaded = load_manifest(path.read_bytes(), str(path), "n", "2027-01-15T08:00:00Z")

    assert [()] == [refused(it) for it in loaded.pods]


@pytest.mark.parametrize(
    ("name", "image"),
    [
        ("host", "host"),
        ("host", "host:latest"),
        ("host", "docker.io/library/host:latest"),
        ("host/web", "host/web"),
        ("host/web", "docker.io/library/host/web:latest"),
        (None, "host:1.0"),
        (None, "host/"),
        (None, "hosts"),
        (None, "nginx"),
        (None, "registry.example/host"),
        (None, ""),
    ],
)
def test_only_the_machine_is_an_image(name: str | None, image: str) -> None:
    assert name == host_image(image)


def test_the_page_of_fields_says_it_of_each() -> None:
    for row in REFUSED:
        support = PODS.support_of(row.path)
        assert support is not None
        assert any("refused: " in why for why in support.why), row.path


def test_of_another_image_it_is_not_known_whether_it_has_a_command() -> None:
    it = pod(mine(image="nginx", command=()))

    assert ["spec.containers[0].image"] == [one.path for one in refused(it)]
