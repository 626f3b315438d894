"""A pod's status, events and CRI requests, as they are compared between two kubelets."""

from typing import Any

import pytest

from live.kit import surface

UID = "0b5d7a4e-3c1f-4a86-9a52-0c3f7d1e2b90"
NAMES = {"live-7": "NODE", "/tmp/agent-1/root": "ROOT", "/tmp/agent-1": "DIRECTORY"}


def event(reason: str, message: str, about: str = "", kind: str = "Normal") -> dict[str, Any]:
    """One event, as the API has it."""
    return {"involvedObject": {"fieldPath": about}, "type": kind, "reason": reason, "message": message}


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("pods/UID/volumes", f"pods/{UID}/volumes"),
        ("pods/podUID", f"pods/pod{UID.replace('-', '_')}"),
        ("containerd://ID", f"containerd://{'0f' * 32}"),
        ("at TIME and TIME", "at 2026-11-29T03:00:00Z and 2026-11-29T03:00:00.123456+01:00"),
        ("dial IP:80", "dial 10.212.0.7:80"),
        ("10.212.0.0/24", "10.212.0.0/24"),
        ("ROOT/pods on NODE, DIRECTORY/logs", "/tmp/agent-1/root/pods on live-7, /tmp/agent-1/logs"),
        ("kube-api-access-RANDOM", "kube-api-access-x7k2p"),
        ("ROOT/pods/UID/containers/c/FILE", f"/tmp/agent-1/root/pods/{UID}/containers/c/5e0c8f21"),
        (
            'Pulled image "x" in DURATION (DURATION including waiting). Image size: SIZE bytes.',
            'Pulled image "x" in 12ms (1.2s including waiting). Image size: 70 bytes.',
        ),
        ("back-off 10s restarting failed container", "back-off 10s restarting failed container"),
    ],
)
def test_texts_that_differ_in_every_run_are_replaced(expected: str, text: str) -> None:
    assert expected == surface.normalized(text, NAMES)


def test_what_follows_from_the_machine_and_what_is_empty_is_left_out() -> None:
    told = {
        "dns_config": {"servers": ["10.0.0.1"]},
        "linux": {"resources": {"oom_score_adj": 999, "cpu_shares": 2}},
        "args": [],
    }

    assert {
        "dns_config": "MACHINE",
        "linux": {"resources": {"cpu_shares": 2, "oom_score_adj": "MACHINE"}},
    } == surface.normalized(told, NAMES)


def test_the_order_of_variables_does_not_count() -> None:
    envs = [{"key": "PATH", "value": "L3g="}, {"key": "NODE", "value": "bGl2ZS03"}, {"key": "EMPTY"}]

    assert {"envs": {"PATH": "/x", "NODE": "NODE", "EMPTY": ""}} == surface.normalized({"envs": envs}, NAMES)


def test_the_order_of_conditions_does_not_count_and_that_of_containers_does() -> None:
    conditions = [{"type": "Ready"}, {"type": "Initialized"}]
    containers = [{"name": "b"}, {"name": "a"}]

    found = surface.status({"status": {"conditions": conditions, "containerStatuses": containers}}, NAMES)

    assert {"conditions": conditions[::-1], "containerStatuses": containers} == found


def test_events_are_grouped_by_container_and_count_once() -> None:
    told = [
        event("Pulled", "here", "spec.containers{b}"),
        event("Pulled", "here", "spec.containers{a}"),
        event("Started", "runs", "spec.containers{b}"),
        event("BackOff", f"pod a_default({UID})", "spec.containers{a}", "Warning"),
        event("BackOff", f"pod a_default({UID})", "spec.containers{a}", "Warning"),
        event("FailedMount", "no object", "", "Warning"),
    ]

    assert [
        "pod: Warning FailedMount: no object",
        "spec.containers{a}: Normal Pulled: here",
        "spec.containers{a}: Warning BackOff: pod a_default(UID)",
        "spec.containers{b}: Normal Pulled: here",
        "spec.containers{b}: Normal Started: runs",
    ] == surface.events(told, NAMES)


def test_the_first_attempt_of_a_container_is_the_one_that_counts() -> None:
    sent = [
        ("RunPodSandbox", "", {"config": {"hostname": "p"}}),
        ("CreateContainer", "b", {"attempt": 0, "name": "b"}),
        ("CreateContainer", "a", {"name": "a"}),
        ("StartContainer", "b", {"container_id": "0f" * 32}),
        ("CreateContainer", "b", {"attempt": 1, "name": "b"}),
    ]

    assert {
        "calls": {
            "RunPodSandbox": {"config": {"hostname": "p"}},
            "CreateContainer b": {"name": "b"},
            "CreateContainer a": {"name": "a"},
            "StartContainer b": {"container_id": "ID"},
        },
        "order": ["RunPodSandbox", "CreateContainer a", "CreateContainer b", "StartContainer b"],
    } == surface.requests(sent, NAMES)


@pytest.mark.parametrize(
    ("expected", "mine", "theirs"),
    [
        ([], {"a": [1, {"b": "c"}]}, {"a": [1, {"b": "c"}]}),
        (["a.b: 1 → 2"], {"a": {"b": 1}}, {"a": {"b": 2}}),
        (["a: 1 → None", "b: None → 2"], {"a": 1}, {"b": 2}),
        (["[1].x: 1 → None"], [{"x": 0}, {"x": 1}], [{"x": 0}, {}]),
        (["e: missing 'x'", "e: extra 'z'"], {"e": ["x", "y"]}, {"e": ["y", "z"]}),
        (["e: another order: ['x', 'y'] → ['y', 'x']"], {"e": ["x", "y"]}, {"e": ["y", "x"]}),
    ],
)
def test_each_place_that_differs_is_named(expected: list[str], mine: Any, theirs: Any) -> None:
    assert expected == list(surface.differences(mine, theirs))
