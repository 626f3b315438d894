"""No field of a pod's spec is dropped in silence: what does not work is reported with its path.

That every field of the API is in a table, packaging/generate_support.py sees to.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.podkit import container, pod
from trikubelet.core.containers.unsupported import ROWS, unsupported_fields
from trikubelet.core.support.field import State
from trikubelet.core.support.pods import PODS
from trikubelet.model import k8s

RECORDED = Path(__file__).parent.parent / "recorded"


def test_the_types_the_agent_reads_have_the_fields_the_api_server_has() -> None:
    """Else a pod could set a field that no table can name."""
    written = {}
    for line in (RECORDED / "pod_types.txt").read_text().splitlines():
        name, _, members = line.partition(": ")
        written[name] = {member.partition("=")[0].removesuffix("[]") for member in members.split()}
    del written["ObjectMeta"]  # that of a claim's template, of which only labels and annotations count

    assert written == {name: {f.encode_name for f in msgspec.structs.fields(getattr(k8s, name))} for name in written}


def test_a_row_for_a_field_that_works_is_for_some_values_only() -> None:
    works = {path for one in PODS.works for path in one.paths}

    assert [] == [row.path for row in ROWS if row.path in works and row.when is bool]
    assert set() == PODS.elsewhere.keys() & {row.path for row in ROWS}


@pytest.mark.parametrize(
    ("path", "state"),
    [
        ("containers[].tty", State.LIMITED),
        ("containers[].stdin", State.WORKS),
        ("initContainers[].env[].value", State.WORKS),
        ("containers[].resources.limits", State.LIMITED),
        ("volumes[].cephfs.monitors", State.REPORTED),
        ("ephemeralContainers[].ports[].name", State.REFUSED),
        ("ephemeralContainers[].lifecycle.preStop.exec.command", State.REFUSED),
        ("containers[].ports[].name", State.WORKS),
        ("tolerations[].key", State.ELSEWHERE),
    ],
)
def test_an_entry_speaks_for_all_below_it_and_for_containers_of_every_kind(path: str, state: State) -> None:
    support = PODS.support_of(path)

    assert support is not None
    assert state is support.state


def test_unlisted_field_is_not_reported() -> None:
    assert PODS.support_of("containers[].colour") is None
    assert PODS.support_of("containers[]") is None


HOOK = k8s.LifecycleHandler(tcp_socket=k8s.TCPSocketAction(port=80))
WINDOWS = k8s.WindowsSecurityContextOptions()


def env(**source: Any) -> dict[str, Any]:
    return {"env": (k8s.EnvVar(name="A", value_from=k8s.EnvVarSource(**source)),)}


def needs(**fields: Any) -> dict[str, Any]:
    return {"resources": k8s.ResourceRequirements(**fields)}


H2C = k8s.HTTPGetAction(port=80, protocol="HTTP2")
TLS = k8s.GRPCAction(port=80, mode="TLS")
PROBES = (("liveness_probe", "livenessProbe"), ("readiness_probe", "readinessProbe"), ("startup_probe", "startupProbe"))
HOOKS = (("post_start", "postStart"), ("pre_stop", "preStop"))

IN_CONTAINERS: tuple[tuple[str, dict[str, Any]], ...] = (
    *((f"{name}.httpGet.protocol", {field: k8s.Probe(http_get=H2C)}) for field, name in PROBES),
    *((f"{name}.grpc.mode", {field: k8s.Probe(grpc=TLS)}) for field, name in PROBES),
    *(
        (
            f"lifecycle.{name}.httpGet.protocol",
            {"lifecycle": k8s.Lifecycle(**{field: k8s.LifecycleHandler(http_get=H2C)})},
        )
        for field, name in HOOKS
    ),
    (
        "volumeMounts[0].bindMountOptions",
        {"volume_mounts": (k8s.VolumeMount(name="v", mount_path="/v", bind_mount_options=("noexec",)),)},
    ),
    ("lifecycle.postStart.tcpSocket", {"lifecycle": k8s.Lifecycle(post_start=HOOK)}),
    ("lifecycle.preStop.tcpSocket", {"lifecycle": k8s.Lifecycle(pre_stop=HOOK)}),
    ("resources.claims", needs(claims=(k8s.ResourceClaim(name="c"),))),
    ("securityContext.windowsOptions", {"security_context": k8s.SecurityContext(windows_options=WINDOWS)}),
)


@pytest.mark.parametrize(("path", "fields"), IN_CONTAINERS, ids=[path for path, _ in IN_CONTAINERS])
def test_a_containers_field_is_reported_with_its_path_wherever_the_container_stands(
    path: str, fields: dict[str, Any]
) -> None:
    it = pod("plain", container("a", **fields), init=(container("i", **fields),))

    assert [f"spec.initContainers[0].{path}", f"spec.containers[1].{path}"] == [
        one.path for one in unsupported_fields(it)
    ]


IN_PODS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("resourceClaims", {"resource_claims": (k8s.PodResourceClaim(name="c"),)}),
    ("resources.claims", needs(claims=(k8s.ResourceClaim(name="c"),))),
    (
        "securityContext.seLinuxChangePolicy",
        {"security_context": k8s.PodSecurityContext(se_linux_change_policy="MountOption")},
    ),
    (
        "securityContext.windowsOptions",
        {"security_context": k8s.PodSecurityContext(windows_options=WINDOWS)},
    ),
)


@pytest.mark.parametrize(("path", "fields"), IN_PODS, ids=[path for path, _ in IN_PODS])
def test_a_pods_field_is_reported_with_its_path(path: str, fields: dict[str, Any]) -> None:
    it = k8s.Pod(metadata=k8s.ObjectMeta(name="p"), spec=k8s.PodSpec(containers=(container("a"),), **fields))

    assert [f"spec.{path}"] == [one.path for one in unsupported_fields(it)]


def test_alpha_field_of_a_volume_is_reported_with_its_path() -> None:
    it = pod("plain", volumes=(k8s.Volume(name="v", empty_dir=k8s.EmptyDirVolumeSource(mode=0o700)),))

    assert ["spec.volumes[0].emptyDir.mode"] == [one.path for one in unsupported_fields(it)]


def test_the_samples_above_leave_out_no_row() -> None:
    sampled = {path.replace("[0]", "[]") for path, _ in IN_PODS}
    sampled |= {f"containers[].{path}".replace("[0]", "[]").partition("[e")[0] for path, _ in IN_CONTAINERS}
    left_out = {row.path for row in ROWS} - sampled

    assert set() == {path for path in left_out if not path.startswith("volumes[]")}


def test_an_ordinary_pod_has_nothing_to_report() -> None:
    plain = container(
        "a",
        resources=k8s.ResourceRequirements(limits={"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "2Mi"}),
        resize_policy=(k8s.ContainerResizePolicy(resource_name="cpu", restart_policy="RestartContainer"),),
    )
    volumes = (
        k8s.Volume(name="d", empty_dir=k8s.EmptyDirVolumeSource(medium="Memory", size_limit="1Mi")),
        k8s.Volume(name="h", host_path=k8s.HostPathVolumeSource(path="/h")),
    )
    it = pod(plain, volumes=volumes, enable_service_links=True, host_users=False, os=k8s.PodOS(name="linux"))

    assert () == unsupported_fields(it)


def test_seccomp_annotations_are_told_of_where_no_field_has_taken_their_place() -> None:
    profile = k8s.SeccompProfile(type="RuntimeDefault")
    confined = container("b", security_context=k8s.SecurityContext(seccomp_profile=profile))
    of_all = ("seccomp.security.alpha.kubernetes.io/pod",)
    of_one = tuple(f"container.seccomp.security.alpha.kubernetes.io/{name}" for name in "ab")
    annotations = dict.fromkeys((*of_all, *of_one), "runtime/default")
    it = pod("a", confined, meta={"annotations": annotations})

    expected = [f"metadata.annotations[{key}]" for key in (*of_all, of_one[0])]
    assert expected == [one.path for one in unsupported_fields(it)]
