"""The record of a pod for a reboot without an API server, and the kinds of objects that may be written at all."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.core.names import CONFIG_MIRROR
from trikubelet.core.offline_pods import Keeping, RememberedRecord, Secrecy, keeping, recall, remember
from trikubelet.model import k8s
from trikubelet.model.decoding import decode_object
from trikubelet.model.offline_records import pod_key

RUNNING: dict[str, Any] = {
    "name": "web", "image": "i", "imageID": "sha256:1", "ready": True, "started": True, "restartCount": 0,
    "containerID": "containerd://1", "state": {"running": {"startedAt": "2026-11-29T10:00:00Z"}},
}  # fmt: skip


def server_pod(policy: str = "Always", status: dict[str, Any] | None = None, **metadata: Any) -> bytes:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web", "namespace": "default", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"},
            "managedFields": [{"manager": "kubectl"}], **metadata,
        },
        "spec": {
            "nodeName": "n", "restartPolicy": policy, "fieldOfTheFuture": 1,
            "containers": [{"name": "web", "image": "i"}],
        },
        "status": status or {"phase": "Running", "startTime": "2026-11-29T09:00:00Z", "containerStatuses": [RUNNING]},
    }  # fmt: skip
    return msgspec.json.encode(pod)


def remembered(raw: bytes, *, was_admitted: bool = True, seen_at: str = "now") -> RememberedRecord:
    found = remember(raw, was_admitted=was_admitted, seen_at=seen_at)
    assert found is not None
    return found


def kept(raw: bytes) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(recall("u", remembered(raw).record.content).raw)
    return found


def with_status(policy: str = "Always", **status: Any) -> bytes:
    base = {"phase": "Running", "startTime": "2026-11-29T09:00:00Z", "containerStatuses": [RUNNING]}
    return server_pod(policy, {**base, **status})


def container(**changes: Any) -> list[dict[str, Any]]:
    return [{**RUNNING, **changes}]


def ended(code: int) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "finishedAt": "2026-11-29T11:00:00Z"}}


def test_pod_is_recalled_as_it_was_without_the_managers_of_its_fields() -> None:
    record = remembered(server_pod(), was_admitted=True, seen_at="2026-11-29T12:00:00Z").record
    found = recall("u", record.content)
    assert (pod_key("u"), True, "2026-11-29T12:00:00Z") == (record.key, found.was_admitted, found.seen_at)
    sent, pod = decode_object(server_pod(), k8s.Pod), decode_object(found.raw, k8s.Pod)
    assert sent.spec == pod.spec
    assert {"a": "b"} == pod.metadata.labels
    assert 1 == msgspec.json.decode(found.raw)["spec"]["fieldOfTheFuture"]
    assert b"managedFields" not in found.raw


def test_image_that_a_container_ran_is_kept_as_a_proof() -> None:
    [status] = kept(server_pod())["status"]["containerStatuses"]
    assert {"name": "web", "image": "i", "imageID": "sha256:1", "restartCount": 0, "ready": False} == status


@pytest.mark.parametrize(
    ("stays", "policy", "code", "where"),
    [
        (False, "Always", 0, "containerStatuses"),
        (False, "OnFailure", 1, "containerStatuses"),
        (True, "OnFailure", 0, "containerStatuses"),
        (True, "Never", 1, "containerStatuses"),
        (True, "Always", 1, "ephemeralContainerStatuses"),
    ],
)
def test_end_is_kept_only_if_the_container_stays_down(stays: bool, policy: str, code: int, where: str) -> None:
    [status] = kept(with_status(policy, **{where: container(state=ended(code))}))["status"][where]
    assert stays is ("state" in status)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_terminal_phase_is_kept_with_its_reason(phase: str) -> None:
    status = kept(with_status(phase=phase, reason="Evicted", message="why"))["status"]
    assert (phase, "Evicted", "why") == (status["phase"], status["reason"], status["message"])


def test_conditions_of_other_components_are_kept_and_the_nodes_own_are_not() -> None:
    gate = {"type": "example.com/gate", "status": "True", "lastProbeTime": "2026-11-29T10:00:00Z"}
    ready = {"type": "Ready", "status": "True"}
    conditions = kept(with_status(conditions=[ready, gate]))["status"]["conditions"]
    assert [{"type": "example.com/gate", "status": "True"}] == conditions


def test_mirror_pod_is_not_remembered() -> None:
    raw = server_pod(annotations={CONFIG_MIRROR: "x"})
    assert None is remember(raw, was_admitted=True, seen_at="now")


@pytest.mark.parametrize(
    "same",
    [
        with_status(containerStatuses=container(restartCount=9, ready=False, state=ended(1))),
        with_status(containerStatuses=container(containerID="containerd://2", lastState=ended(1))),
        with_status(conditions=[{"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-29T10:00:00Z"}]),
        with_status(podIP="10.0.0.9", podIPs=[{"ip": "10.0.0.9"}], hostIP="1.1.1.1", observedGeneration=2),
        server_pod(resourceVersion="8", managedFields=[]),
    ],
)
def test_what_a_node_writes_all_day_is_no_change(same: bytes) -> None:
    assert remembered(server_pod()).digest == remembered(same, seen_at="later").digest


@pytest.mark.parametrize(
    "other",
    [
        server_pod(labels={"a": "c"}),
        server_pod(deletionTimestamp="2026-11-29T12:00:00Z"),
        server_pod(annotations={"a": "b"}),
        server_pod("Never"),
        with_status(phase="Failed"),
        with_status(containerStatuses=container(imageID="sha256:2")),
        with_status(conditions=[{"type": "example.com/gate", "status": "True"}]),
        with_status(startTime="2026-11-29T09:30:00Z"),
    ],
)
def test_what_decides_about_a_start_is_a_change(other: bytes) -> None:
    assert remembered(server_pod()).digest != remembered(other).digest


def test_admission_is_a_change() -> None:
    assert remembered(server_pod()).digest != remembered(server_pod(), was_admitted=False).digest


@pytest.mark.parametrize(
    "raw", [b"[]", b"{}", b'{"metadata":[]}', b'{"metadata":{}}', b"{", b'{"metadata":{},"spec":1}']
)
def test_what_is_no_pod_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each damage has words of its own
        remember(raw, was_admitted=True, seen_at="now")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b'{"seenAt":"","admitted":true,"pod":[]}',
        b'{"seenAt":"","admitted":true,"pod":{"metadata":{"uid":"x"}}}',
    ],
)
def test_content_that_is_no_record_of_the_pod_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each damage has words of its own
        recall("u", content)


@pytest.mark.parametrize("kind", ["Secret", "Token", "PodCertificate"])
def test_secrets_are_written_only_as_the_mode_allows(kind: str) -> None:
    expected = {
        Secrecy.WITHOUT_SECRETS: Keeping.NOT,
        Secrecy.OPEN: Keeping.PLAIN,
        Secrecy.SEALED: Keeping.SEALED,
    }
    assert expected == {secrecy: keeping(kind, secrecy) for secrecy in Secrecy}


def test_everything_else_is_written_in_every_mode() -> None:
    for kind in ("Pod", "ConfigMap", "Node", "RuntimeClass", "PersistentVolumeClaim"):
        assert {Keeping.PLAIN} == {keeping(kind, secrecy) for secrecy in Secrecy}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
STATUS = st.dictionaries(
    st.sampled_from(["phase", "conditions", "containerStatuses", "initContainerStatuses", "startTime", "reason"]), JSON
)


@given(STATUS)
def test_any_status_is_kept_or_refused_and_keeping_it_twice_changes_nothing(status: dict[str, Any]) -> None:
    pod = {"metadata": {"uid": "u"}, "spec": {}, "status": status}
    first = remembered(msgspec.json.encode(pod))
    raw = recall("u", first.record.content).raw
    assert first.digest == remembered(raw, seen_at="later").digest
