"""No field of a pod's spec is dropped in silence: each is honoured, somebody else's, or reported.

The types are walked, so a field that a new version of the API brings fails here until somebody has said what it means.
"""

import typing
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from core.podkit import container, pod
from trikubelet.core.containers.unsupported import ROWS, unsupported_fields
from trikubelet.model import k8s

# Fields with an effect. One that is here and has a row too is honoured for some values only.
HONOURED = frozenset(
    {
        "activeDeadlineSeconds",
        *("dnsConfig", "dnsPolicy", "hostAliases", "hostIPC", "hostNetwork", "hostPID", "hostUsers", "hostname"),
        *("hostnameOverride", "nodeName", "overhead", "priority", "priorityClassName", "readinessGates"),
        *("resources.limits", "resources.requests", "restartPolicy", "runtimeClassName", "serviceAccountName"),
        *("setHostnameAsFQDN", "shareProcessNamespace", "subdomain", "terminationGracePeriodSeconds", "os.name"),
        "volumes[].name",
        "volumes[].emptyDir",
        "volumes[].hostPath",
        *(
            f"securityContext.{name}"
            for name in (
                *("appArmorProfile", "fsGroup", "runAsGroup", "runAsNonRoot", "runAsUser", "seLinuxOptions"),
                *("seLinuxChangePolicy", "seccompProfile", "supplementalGroups", "supplementalGroupsPolicy", "sysctls"),
            )
        ),
        *(
            f"containers[].{name}"
            for name in (
                *("args", "command", "env[].name", "env[].value", "env[].valueFrom.fieldRef", "image", "name"),
                *("env[].valueFrom.resourceFieldRef", "imagePullPolicy", "lifecycle.stopSignal", "ports", "stdin"),
                *("resizePolicy[].restartPolicy", "resources.limits", "resources.requests", "restartPolicy", "tty"),
                *("restartPolicyRules", "stdinOnce", "terminationMessagePath", "terminationMessagePolicy"),
                *("volumeMounts[].mountPath", "volumeMounts[].mountPropagation", "volumeMounts[].name", "workingDir"),
                *("volumeMounts[].readOnly", "volumeMounts[].recursiveReadOnly"),
            )
        ),
        *(
            f"containers[].securityContext.{name}"
            for name in (
                *("allowPrivilegeEscalation", "appArmorProfile", "capabilities", "privileged", "procMount"),
                *("readOnlyRootFilesystem", "runAsGroup", "runAsNonRoot", "runAsUser", "seLinuxOptions"),
                "seccompProfile",
            )
        ),
    }
)
# Fields a kubelet has nothing to do with, and whose they are.
NOT_OURS = {
    "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution": "the scheduler's",
    "affinity.podAffinity": "the scheduler's",
    "affinity.podAntiAffinity": "the scheduler's",
    "automountServiceAccountToken": "the API server's, which adds the volume",
    "containers[].envFrom[].prefix": "of no use without the object, which is reported",
    "containers[].resizePolicy[].resourceName": "says which resource the policy is for",
    "enableServiceLinks": "true unless asked otherwise, and there are no services without a cluster",
    "preemptionPolicy": "the scheduler's",
    "schedulerName": "the scheduler's",
    "schedulingGates": "the scheduler's",
    "schedulingGroup": "the scheduler's",
    "securityContext.fsGroupChangePolicy": "for volumes that come with files in them; an emptyDir has none",
    "serviceAccount": "the old name of serviceAccountName, which is always set beside it",
    "tolerations": "the scheduler's, and of nodes that have taints",
    "topologySpreadConstraints": "the scheduler's",
}
REPORTED = frozenset(row.path for row in ROWS)


def record_of(hint: Any) -> type[msgspec.Struct] | None:
    """The record type within a type hint, if any."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return hint
    return next(filter(None, map(record_of, typing.get_args(hint))), None)


def general(path: str, known: frozenset[str]) -> str:
    """The path as the lists have it: what holds for any container stands under ``containers``."""
    if path in known:
        return path
    return path.replace("initContainers[]", "containers[]").replace("ephemeralContainers[]", "containers[]")


def paths(record: type[msgspec.Struct], where: str, known: frozenset[str]) -> Iterator[str]:
    """Every field path, stopping where one is known or has nothing below it."""
    hints = typing.get_type_hints(record, vars(k8s))
    for field in msgspec.structs.fields(record):
        path, hint = f"{where}{field.encode_name}", hints[field.name]
        inner = record_of(hint)
        if inner is None or general(path, known) in known:
            yield general(path, known)
        else:
            yield from paths(inner, path + ("[]." if typing.get_origin(hint) is tuple else "."), known)


def all_paths() -> set[str]:
    return set(paths(k8s.PodSpec, "", HONOURED | REPORTED | NOT_OURS.keys()))


def test_every_field_is_honoured_or_reported_or_somebody_elses() -> None:
    assert set() == all_paths() - HONOURED - REPORTED - NOT_OURS.keys()


def test_no_list_names_a_field_that_is_not_there() -> None:
    assert set() == (HONOURED | NOT_OURS.keys() | REPORTED) - all_paths() - {"volumes[].emptyDir.medium"}


def test_a_field_that_is_honoured_and_reported_is_reported_for_some_values_only() -> None:
    both = [row for row in ROWS if row.path in HONOURED]

    assert [] == [row.path for row in both if row.when is bool and row.path != "runtimeClassName"]
    assert set() == NOT_OURS.keys() & REPORTED


PROBE = k8s.Probe(exec=k8s.ExecAction(command=("true",)))
HOOK = k8s.LifecycleHandler(exec=k8s.ExecAction(command=("true",)))
WINDOWS = k8s.WindowsSecurityContextOptions()
TERM = k8s.NodeSelector(node_selector_terms=())


def env(**source: Any) -> dict[str, Any]:
    return {"env": (k8s.EnvVar(name="A", value_from=k8s.EnvVarSource(**source)),)}


def mount(**fields: str) -> dict[str, Any]:
    return {"volume_mounts": (k8s.VolumeMount(name="v", mount_path="/v", **fields),)}


def needs(**fields: Any) -> dict[str, Any]:
    return {"resources": k8s.ResourceRequirements(**fields)}


IN_CONTAINERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("livenessProbe", {"liveness_probe": PROBE}),
    ("readinessProbe", {"readiness_probe": PROBE}),
    ("startupProbe", {"startup_probe": PROBE}),
    ("lifecycle.postStart", {"lifecycle": k8s.Lifecycle(post_start=HOOK)}),
    ("lifecycle.preStop", {"lifecycle": k8s.Lifecycle(pre_stop=HOOK)}),
    ("envFrom[0].configMapRef", {"env_from": (k8s.EnvFromSource(config_map_ref=k8s.ConfigMapEnvSource(name="o")),)}),
    ("envFrom[0].secretRef", {"env_from": (k8s.EnvFromSource(secret_ref=k8s.SecretEnvSource(name="o")),)}),
    ("env[0].valueFrom.configMapKeyRef", env(config_map_key_ref=k8s.ConfigMapKeySelector(name="o", key="k"))),
    ("env[0].valueFrom.secretKeyRef", env(secret_key_ref=k8s.SecretKeySelector(name="o", key="k"))),
    ("env[0].valueFrom.fileKeyRef", env(file_key_ref=k8s.FileKeySelector(key="k", path="p", volume_name="v"))),
    ("volumeMounts[0].subPath", mount(sub_path="a")),
    ("volumeMounts[0].subPathExpr", mount(sub_path_expr="$(A)")),
    ("volumeDevices", {"volume_devices": (k8s.VolumeDevice(name="v", device_path="/dev/v"),)}),
    ("resources.claims", needs(claims=(k8s.ResourceClaim(name="c"),))),
    ("resources.limits", needs(limits={"example.com/gpu": "1", "cpu": "1"})),
    ("resources.limits", needs(limits={"ephemeral-storage": "1Gi", "hugepages-2Mi": "2Mi"})),
    (
        "resizePolicy[0].restartPolicy",
        {"resize_policy": (k8s.ContainerResizePolicy(resource_name="cpu", restart_policy="RestartContainer"),)},
    ),
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


REQUIRED = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
IN_PODS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        REQUIRED,
        {
            "affinity": k8s.Affinity(
                node_affinity=k8s.NodeAffinity(required_during_scheduling_ignored_during_execution=TERM)
            )
        },
    ),
    ("hostUsers", {"host_users": False}),
    ("imagePullSecrets", {"image_pull_secrets": (k8s.LocalObjectReference(name="s"),)}),
    ("nodeSelector", {"node_selector": {"a": "b"}}),
    ("os.name", {"os": k8s.PodOS(name="windows")}),
    ("resourceClaims", {"resource_claims": (k8s.PodResourceClaim(name="c"),)}),
    ("resources.claims", needs(claims=(k8s.ResourceClaim(name="c"),))),
    ("runtimeClassName", {"runtime_class_name": "gvisor"}),
    (
        "securityContext.seLinuxChangePolicy",
        {"security_context": k8s.PodSecurityContext(se_linux_change_policy="MountOption")},
    ),
    (
        "securityContext.windowsOptions",
        {"security_context": k8s.PodSecurityContext(windows_options=WINDOWS)},
    ),
    (
        "ephemeralContainers[0].targetContainerName",
        {"ephemeral_containers": (k8s.EphemeralContainer(name="e", target_container_name="a"),)},
    ),
    (
        "volumes[0].emptyDir.medium",
        {"volumes": (k8s.Volume(name="v", empty_dir=k8s.EmptyDirVolumeSource(medium="HugePages-2Mi")),)},
    ),
    ("volumes[0].emptyDir", {"volumes": (k8s.Volume(name="v", empty_dir=k8s.EmptyDirVolumeSource(size_limit="1Gi")),)}),
    ("volumes[0].configMap", {"volumes": (k8s.Volume(name="v", config_map=k8s.ConfigMapVolumeSource(name="o")),)}),
    ("volumes[0].projected", {"volumes": (k8s.Volume(name="v", projected=k8s.ProjectedVolumeSource()),)}),
)


@pytest.mark.parametrize(("path", "fields"), IN_PODS, ids=[path for path, _ in IN_PODS])
def test_a_pods_field_is_reported_with_its_path(path: str, fields: dict[str, Any]) -> None:
    it = k8s.Pod(metadata=k8s.ObjectMeta(name="p"), spec=k8s.PodSpec(containers=(container("a"),), **fields))

    assert [f"spec.{path}"] == [one.path for one in unsupported_fields(it)]


def test_the_samples_above_leave_out_no_row() -> None:
    sampled = {path.replace("[0]", "[]") for path, _ in IN_PODS}
    sampled |= {f"containers[].{path}".replace("[0]", "[]") for path, _ in IN_CONTAINERS}
    left_out = {row.path for row in ROWS} - sampled

    assert set() == {path for path in left_out if not path.startswith("volumes[]")}


def test_an_ordinary_pod_has_nothing_to_report() -> None:
    plain = container(
        "a",
        resources=k8s.ResourceRequirements(limits={"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "2Mi"}),
        resize_policy=(k8s.ContainerResizePolicy(resource_name="cpu", restart_policy="NotRequired"),),
    )
    volumes = (
        k8s.Volume(name="d", empty_dir=k8s.EmptyDirVolumeSource(medium="Memory", size_limit="1Mi")),
        k8s.Volume(name="h", host_path=k8s.HostPathVolumeSource(path="/h")),
    )
    it = pod(plain, volumes=volumes, enable_service_links=True, host_users=True, os=k8s.PodOS(name="linux"))

    assert () == unsupported_fields(it)
