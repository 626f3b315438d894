"""Why a container has no log, in the words kubectl prints."""

from __future__ import annotations

import pytest

from trikubelet.core.log_status import has_container, why_no_log
from trikubelet.model import k8s


def waiting(reason: str = "") -> k8s.ContainerState:
    return k8s.ContainerState(waiting=k8s.ContainerStateWaiting(reason=reason))


def ended(container_id: str = "c://1") -> k8s.ContainerState:
    return k8s.ContainerState(terminated=k8s.ContainerStateTerminated(exit_code=0, container_id=container_id))


RUNNING = k8s.ContainerState(running=k8s.ContainerStateRunning())


def pod(state: k8s.ContainerState | None, last: k8s.ContainerState | None = None, kind: str = "container") -> k8s.Pod:
    status = k8s.ContainerStatus(
        name="app", image="a", image_id="i", ready=False, restart_count=0, state=state, last_state=last
    )
    return k8s.Pod(
        metadata=k8s.ObjectMeta(name="web"),
        spec=k8s.PodSpec(containers=(k8s.Container(name="app"),)),
        status=k8s.PodStatus(**{f"{kind}_statuses": (status,)}),
    )


@pytest.mark.parametrize(
    ("why", "of"),
    [
        (None, pod(RUNNING)),
        (None, pod(RUNNING, kind="init_container")),
        (None, pod(RUNNING, kind="ephemeral_container")),
        (None, pod(ended())),
        (None, pod(ended(""), last=ended())),
        ('container "app" in pod "web" is terminated', pod(ended(""))),
        ('container "app" in pod "web" is terminated', pod(ended(""), last=ended(""))),
        (None, pod(waiting("CrashLoopBackOff"), last=ended())),
        ('container "app" in pod "web" is terminated', pod(waiting("CrashLoopBackOff"), last=ended(""))),
        ('container "app" in pod "web" is waiting to start: ContainerCreating', pod(waiting("ContainerCreating"))),
        ('container "app" in pod "web" is waiting to start: image can\'t be pulled', pod(waiting("ErrImagePull"))),
        (
            'container "app" in pod "web" is waiting to start: trying and failing to pull image',
            pod(waiting("ImagePullBackOff")),
        ),
        ('container "app" in pod "web" is waiting to start - no logs yet', pod(k8s.ContainerState())),
        ('container "app" in pod "web" is waiting to start - no logs yet', pod(None)),
    ],
)
def test_the_state_says_whether_there_is_a_log(why: str | None, of: k8s.Pod) -> None:
    assert why == why_no_log(of, "app", previous=False)


@pytest.mark.parametrize("state", [RUNNING, waiting("x"), ended()])
def test_an_earlier_run_is_the_last_state_s(state: k8s.ContainerState) -> None:
    gone = 'previous terminated container "app" in pod "web" not found'
    assert None is why_no_log(pod(state, last=ended()), "app", previous=True)
    assert gone == why_no_log(pod(state), "app", previous=True)
    assert gone == why_no_log(pod(state, last=ended("")), "app", previous=True)


def test_a_container_without_a_status_is_not_available() -> None:
    assert 'container "side" in pod "web" is not available' == why_no_log(pod(RUNNING), "side", previous=False)
    blank = k8s.Pod(metadata=k8s.ObjectMeta(name="web"), spec=k8s.PodSpec(containers=()))
    assert 'container "app" in pod "web" is not available' == why_no_log(blank, "app", previous=True)


def test_every_kind_of_container_is_found() -> None:
    spec = k8s.PodSpec(
        containers=(k8s.Container(name="app"),),
        init_containers=(k8s.Container(name="first"),),
        ephemeral_containers=(k8s.EphemeralContainer(name="looker"),),
    )
    found = k8s.Pod(metadata=k8s.ObjectMeta(name="web"), spec=spec)
    assert [True, True, True, False] == [has_container(found, name) for name in ("app", "first", "looker", "none")]
