"""What a manifest leaves unsaid: the API's defaults."""

import pytest
import yaml
from msgspec.structs import asdict

from trikubelet.core.document import parse_documents
from trikubelet.core.manifest.defaults import with_defaults
from trikubelet.core.structure import decode
from trikubelet.model import k8s


def filled(text: str) -> k8s.Pod:
    ((document,), _) = parse_documents(text, "f")
    pod, faults = decode(document, k8s.Pod)
    assert faults == []
    assert pod is not None
    return with_defaults(pod)


def pod(**spec: object) -> k8s.Pod:
    spec = {"containers": [{"name": "main", "image": "a"}]} | spec
    return filled(yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}))


def container(**fields: object) -> k8s.Container:
    return pod(containers=[{"name": "main", "image": "a"} | fields]).spec.containers[0]


def volume(**source: object) -> k8s.Volume:
    return pod(volumes=[{"name": "a"} | source]).spec.volumes[0]


def test_a_bare_pod_gets_what_the_api_would_have_given_it() -> None:
    spec = pod().spec

    assert "Always" == spec.restart_policy
    assert "ClusterFirst" == spec.dns_policy
    assert "default-scheduler" == spec.scheduler_name
    assert 30 == spec.termination_grace_period_seconds
    assert spec.enable_service_links is True
    assert k8s.PodSecurityContext() == spec.security_context
    assert ("Always", "/dev/termination-log", "File") == (
        spec.containers[0].image_pull_policy,
        spec.containers[0].termination_message_path,
        spec.containers[0].termination_message_policy,
    )


def test_what_is_said_stays() -> None:
    said = {"restartPolicy": "Never", "dnsPolicy": "Default", "schedulerName": "mine", "enableServiceLinks": False}
    spec = pod(**said, terminationGracePeriodSeconds=0).spec

    assert ("Never", "Default", "mine") == (spec.restart_policy, spec.dns_policy, spec.scheduler_name)
    assert (False, 0) == (spec.enable_service_links, spec.termination_grace_period_seconds)


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("a", "Always"),
        ("a:latest", "Always"),
        ("a:1", "IfNotPresent"),
        ("localhost:5000/a", "Always"),
        (f"a@sha256:{'0' * 64}", "IfNotPresent"),
        (f"a:latest@sha256:{'0' * 64}", "IfNotPresent"),
        ("not an image", "IfNotPresent"),
    ],
)
def test_only_a_tag_that_moves_is_always_pulled(image: str, policy: str) -> None:
    assert policy == container(image=image).image_pull_policy
    assert policy == volume(image={"reference": image}).image.pull_policy  # type: ignore[union-attr] # it is one


def test_init_containers_are_filled_like_the_others() -> None:
    first = pod(initContainers=[{"name": "first", "image": "a", "ports": [{"containerPort": 1}]}]).spec.init_containers[
        0
    ]

    assert "Always" == first.image_pull_policy
    assert "TCP" == first.ports[0].protocol


def test_a_probe_without_numbers_asks_every_ten_seconds_and_believes_three_failures() -> None:
    probe = container(livenessProbe={"httpGet": {"port": 80}}).liveness_probe

    assert probe is not None
    assert (1, 10, 1, 3) == (
        probe.timeout_seconds,
        probe.period_seconds,
        probe.success_threshold,
        probe.failure_threshold,
    )
    assert probe.http_get is not None
    assert ("/", "HTTP") == (probe.http_get.path, probe.http_get.scheme)
    assert probe.initial_delay_seconds is None


def test_hooks_are_filled_like_probes() -> None:
    lifecycle = container(lifecycle={"preStop": {"httpGet": {"port": 80}}}).lifecycle

    assert lifecycle is not None
    assert lifecycle.pre_stop is not None
    assert lifecycle.pre_stop.http_get is not None
    assert "/" == lifecycle.pre_stop.http_get.path


def test_what_is_limited_is_requested_unless_something_else_is() -> None:
    resources = container(resources={"limits": {"cpu": 2, "memory": "1Gi"}, "requests": {"cpu": "100m"}}).resources

    assert resources is not None
    assert {"cpu": "100m", "memory": "1Gi"} == resources.requests


def test_a_pods_requests_are_those_of_its_containers_or_else_its_limits() -> None:
    asks = [{"name": "a", "image": "a", "resources": {"requests": {"cpu": "600m"}}}, {"name": "b", "image": "a"}]
    sidecar = {"name": "s", "image": "a", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}
    first = {"name": "f", "image": "a", "resources": {"requests": {"cpu": "650m"}}}
    limits = {"limits": {"cpu": 2, "memory": "1Gi"}}

    assert {"cpu": "750m", "memory": "1Gi"} == requests(
        pod(containers=asks, initContainers=[sidecar, first], resources=limits)
    )
    assert {"cpu": "700m", "memory": "1Gi"} == requests(
        pod(containers=asks, initContainers=[first, sidecar], resources=limits)
    )


def requests(filled: k8s.Pod) -> dict[str, object]:
    assert filled.spec.resources is not None
    return dict(filled.spec.resources.requests)


def test_amounts_that_are_none_are_left_for_the_validation() -> None:
    bad = [{"name": "a", "image": "a", "resources": {"requests": {"cpu": "many"}}}]

    assert {} == requests(pod(containers=bad, resources={"limits": {"cpu": 2}}))


def test_a_volume_without_a_source_is_an_empty_directory() -> None:
    assert k8s.EmptyDirVolumeSource() == volume().empty_dir
    assert volume(hostPath={"path": "/a"}).empty_dir is None


def test_files_in_volumes_are_readable_by_all() -> None:
    downward = volume(downwardAPI={"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}]}).downward_api
    projected = volume(projected={"sources": [{"serviceAccountToken": {"path": "a"}}]}).projected

    assert downward is not None
    assert projected is not None
    assert (0o644, 0o644) == (downward.default_mode, projected.default_mode)
    assert downward.items[0].field_ref == k8s.ObjectFieldSelector(api_version="v1", field_path="metadata.name")
    token = projected.sources[0].service_account_token
    assert token is not None
    assert 3600 == token.expiration_seconds
    assert 0 == volume(configMap={"name": "a", "defaultMode": 0}).config_map.default_mode  # type: ignore[union-attr]


def test_the_system_classes_have_their_priorities_without_an_api_server() -> None:
    assert 2_000_001_000 == pod(priorityClassName="system-node-critical").spec.priority
    assert 7 == pod(priorityClassName="system-node-critical", priority=7).spec.priority
    assert pod(priorityClassName="mine").spec.priority is None


def test_both_names_of_the_service_account_say_the_same() -> None:
    spec = pod(serviceAccount="old").spec

    assert ("old", "old") == (spec.service_account_name, spec.service_account)


def test_filling_in_twice_changes_nothing() -> None:
    first = pod(
        hostNetwork=True,
        volumes=[{"name": "a"}],
        resources={"limits": {"cpu": 2}},
        containers=[{"name": "a", "image": "a", "ports": [{"containerPort": 80}], "livenessProbe": {"exec": {}}}],
    )

    assert asdict(first) == asdict(with_defaults(first))
    assert 80 == first.spec.containers[0].ports[0].host_port
