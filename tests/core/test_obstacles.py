"""What keeps a pod from starting, and whether it can go away by itself."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from trikubelet.core.obstacles import Obstacle, obstacle
from trikubelet.model import k8s
from trikubelet.testing.builders import pod

RUNS = k8s.ContainerState(running=k8s.ContainerStateRunning(started_at=""))


def waits(reason: str, message: str = "") -> k8s.ContainerState:
    return k8s.ContainerState(waiting=k8s.ContainerStateWaiting(reason=reason, message=message))


def ended(reason: str, code: int, message: str = "") -> k8s.ContainerState:
    return k8s.ContainerState(terminated=k8s.ContainerStateTerminated(exit_code=code, reason=reason, message=message))


def status(name: str, state: k8s.ContainerState | None, last: k8s.ContainerState | None = None) -> k8s.ContainerStatus:
    return k8s.ContainerStatus(
        name=name, image="", image_id="", ready=False, restart_count=0, state=state, last_state=last
    )


def of(*regular: k8s.ContainerStatus, init: tuple[k8s.ContainerStatus, ...] = (), error: str = "") -> Obstacle | None:
    shown = k8s.PodStatus(phase="Pending", init_container_statuses=init, container_statuses=regular)
    return obstacle(replace(pod("web"), status=shown), error)


@pytest.mark.parametrize(
    ("reason", "may_go"),
    [
        ("InvalidImageName", False),
        ("ErrImageNeverPull", False),
        ("CreateContainerConfigError", False),
        ("ErrImagePull", True),
        ("ImagePullBackOff", True),
        ("ImageInspectError", True),
        ("RegistryUnavailable", True),
        ("SignatureValidationFailed", True),
        ("CreateContainerError", True),
        ("RunContainerError", True),
    ],
)
def test_a_container_that_waits_because_its_start_failed_is_an_obstacle(reason: str, may_go: bool) -> None:
    found = Obstacle("b", reason, "why", may_go)

    assert found == of(status("a", RUNS), status("b", waits(reason, "why")))
    assert found == of(status("a", waits("PodInitializing")), init=(status("b", waits(reason, "why")),))


@pytest.mark.parametrize("shown", ["CrashLoopBackOff", "RunContainerError"])
@pytest.mark.parametrize("reason", ["StartError", "ContainerCannotRun"])
def test_container_that_cannot_start_its_process_is_an_obstacle(reason: str, shown: str) -> None:
    backs_off = status("a", waits(shown, "back-off 10s"), ended(reason, 128, "no such file"))

    assert Obstacle("a", reason, "no such file", may_go=True) == of(backs_off)


@pytest.mark.parametrize(
    "shown",
    [
        status("a", RUNS),
        status("a", waits("ContainerCreating")),
        status("a", waits("PodInitializing")),
        status("a", waits("CrashLoopBackOff"), ended("Error", 1)),
        status("a", waits("CrashLoopBackOff")),
        status("a", ended("Completed", 0)),
        status("a", None),
    ],
)
def test_a_container_that_starts_or_ends_by_itself_is_none(shown: k8s.ContainerStatus) -> None:
    assert of(shown) is None


def test_a_pod_of_which_nothing_has_begun_is_kept_by_what_its_sync_fails_of() -> None:
    untouched = status("a", waits("ContainerCreating"))

    assert Obstacle("", "FailedMount", "no such: thing", may_go=True) == of(
        untouched, error="FailedMount: no such: thing"
    )
    assert of(untouched) is None
    for begun in (
        status("b", RUNS),
        status("b", waits("CrashLoopBackOff"), ended("Error", 1)),
        status("b", ended("x", 1)),
    ):
        assert of(untouched, begun, error="FailedMount: x") is None
        assert of(untouched, init=(begun,), error="CrashLoopBackOff: x") is None


def test_a_pod_without_a_status_has_no_obstacle() -> None:
    assert obstacle(pod("web"), "FailedMount: x") is None


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ("container a: ErrImagePull: no route", Obstacle("a", "ErrImagePull", "no route", may_go=True)),
        ("container a: StartError", Obstacle("a", "StartError", "", may_go=True)),
        ("FailedMount: x", Obstacle("", "FailedMount", "x", may_go=True)),
    ],
)
def test_an_obstacle_is_reported_in_one_line(told: str, found: Obstacle) -> None:
    assert told == str(found)
