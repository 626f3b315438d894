"""What the embedded runtime does without is named with its path, and nothing that a pod has without asking for it."""

import re
from pathlib import Path
from typing import Any

import pytest

from core.podkit import container, pod
from trikubelet.core.containers.embedded import WITHOUT, done_without
from trikubelet.core.manifest import load_manifest
from trikubelet.core.support.field import State
from trikubelet.core.support.pods import PODS
from trikubelet.model import k8s

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "manifests"
DEFAULT = k8s.SeccompProfile(type="RuntimeDefault")
ARMOR = k8s.AppArmorProfile(type="RuntimeDefault")
LABEL = k8s.SELinuxOptions(level="s0:c1,c2")


def port(**fields: Any) -> dict[str, Any]:
    return {"ports": (k8s.ContainerPort(**fields),)}


def needs(**fields: Any) -> dict[str, Any]:
    return {"resources": k8s.ResourceRequirements(**fields)}


def confined(**fields: Any) -> dict[str, Any]:
    return {"security_context": k8s.SecurityContext(**fields)}


def confined_pod(**fields: Any) -> dict[str, Any]:
    return {"security_context": k8s.PodSecurityContext(**fields)}


IN_CONTAINERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ports[0].hostIP", port(container_port=80, host_port=80, host_ip="127.0.0.1")),
    ("ports[0].hostPort", port(container_port=80, host_port=8099)),
    ("resources.limits[memory]", needs(limits={"memory": "50Mi", "ephemeral-storage": "1Gi"})),
    ("resources.limits[cpu]", needs(limits={"cpu": "1"}, requests={"cpu": "1", "memory": "1Gi"})),
    ("resources.limits[hugepages-2Mi]", needs(limits={"hugepages-2Mi": "2Mi"})),
    ("resources.requests[cpu]", needs(requests={"cpu": "1", "memory": "1Gi"})),
    ("securityContext.appArmorProfile.type", confined(app_armor_profile=ARMOR)),
    ("securityContext.seLinuxOptions", confined(se_linux_options=LABEL)),
    ("securityContext.seccompProfile.type", confined(seccomp_profile=DEFAULT)),
)
IN_PODS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("dnsConfig", {"dns_config": k8s.PodDNSConfig(nameservers=("192.0.2.1",))}),
    ("dnsPolicy", {"dns_policy": "ClusterFirstWithHostNet"}),
    ("resources.limits[memory]", needs(limits={"memory": "50Mi"})),
    ("resources.requests[cpu]", needs(requests={"cpu": "1"})),
    ("securityContext.appArmorProfile.type", confined_pod(app_armor_profile=ARMOR)),
    ("securityContext.seLinuxOptions", confined_pod(se_linux_options=LABEL)),
    ("securityContext.seccompProfile.type", confined_pod(seccomp_profile=DEFAULT)),
)


@pytest.mark.parametrize(("path", "fields"), IN_CONTAINERS)
def test_a_containers_field_is_named_wherever_the_container_stands(path: str, fields: dict[str, Any]) -> None:
    it = pod("plain", container("a", **fields), init=(container("i", **fields),))

    assert [f"spec.initContainers[0].{path}", f"spec.containers[1].{path}"] == [one.path for one in done_without(it)]


@pytest.mark.parametrize(("path", "fields"), IN_PODS)
def test_a_pods_field_is_named(path: str, fields: dict[str, Any]) -> None:
    assert [f"spec.{path}"] == [one.path for one in done_without(pod("a", **fields))]


def test_a_profile_that_an_annotation_asks_for_is_named() -> None:
    keys = {name: f"container.apparmor.security.beta.kubernetes.io/{name}" for name in "ab"}
    it = pod("a", "b", meta={"annotations": {keys["a"]: "runtime/default", keys["b"]: "unconfined"}})

    assert [f"metadata.annotations[{keys['a']}]"] == [one.path for one in done_without(it)]


def test_the_samples_above_leave_out_no_row() -> None:
    sampled = {path for path, _ in IN_PODS} | {f"containers[].{path}" for path, _ in IN_CONTAINERS}

    assert {row.path for row in WITHOUT} == {re.sub(r"\[[^]]{2,}\]$", "", p).replace("[0]", "[]") for p in sampled}


@pytest.mark.parametrize(("medium", "expected"), [("Memory", ["spec.volumes[0].emptyDir.sizeLimit"]), ("", [])])
def test_a_size_of_memory_that_cannot_be_limited_without_mounts_is_named(medium: str, expected: list[str]) -> None:
    source = k8s.EmptyDirVolumeSource(medium=medium, size_limit="1Mi")
    it = pod("a", volumes=(k8s.Volume(name="v", empty_dir=source),))

    assert expected == [one.path for one in done_without(it, may_mount=False)]
    assert () == done_without(it)


def test_of_what_it_carries_out_nothing_is_said() -> None:
    plain = container(
        "a",
        **port(container_port=80, host_port=80, host_ip="0.0.0.0"),
        **needs(requests={"memory": "1Gi"}),
        **confined(seccomp_profile=k8s.SeccompProfile(type="Unconfined"), read_only_root_filesystem=True),
    )

    assert () == done_without(pod(plain, dns_policy="ClusterFirst", host_network=True))


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_the_first_try_is_not_warned_of_anything(path: Path) -> None:
    loaded = load_manifest(path.read_bytes(), str(path), "n", "2027-01-15T08:00:00Z")

    assert [()] == [done_without(it) for it in loaded.pods]


def test_the_page_of_fields_says_it_of_each() -> None:
    support = PODS.support_of("containers[].ports[].hostPort")

    assert support is not None
    assert State.LIMITED is support.state
    assert any(why.startswith("on the embedded runtime: ") for why in support.why)
