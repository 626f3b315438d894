"""Which runs of containers ended between two statuses."""

from __future__ import annotations

from trikubelet.core.pod_status.between import ends
from trikubelet.model import k8s


def ended(id_: str, code: int = 0) -> k8s.ContainerState:
    return k8s.ContainerState(
        terminated=k8s.ContainerStateTerminated(
            exit_code=code, reason="Error" if code else "Completed", container_id=id_
        )
    )


def container(state: k8s.ContainerState, last: k8s.ContainerState | None = None) -> k8s.ContainerStatus:
    return k8s.ContainerStatus(
        name="c", image="i", image_id="", ready=False, restart_count=0, state=state, last_state=last
    )


RUNNING = k8s.ContainerState(running=k8s.ContainerStateRunning())


def test_each_run_that_ended_is_reported_once_by_kind_code_and_reason() -> None:
    before = k8s.PodStatus(container_statuses=(container(RUNNING),), init_container_statuses=(container(ended("i")),))
    after = k8s.PodStatus(
        container_statuses=(container(ended("a", 3)),), init_container_statuses=(container(ended("i")),)
    )
    again = k8s.PodStatus(container_statuses=(container(RUNNING, ended("a", 3)),))

    assert [("container", 3, "Error")] == ends(before, after)
    assert [("init_container", 0, "Completed")] == ends(
        k8s.PodStatus(), k8s.PodStatus(init_container_statuses=(container(ended("i")),))
    )
    assert [] == ends(after, again)
    assert [("ephemeral_container", 0, "Completed")] == ends(
        k8s.PodStatus(), k8s.PodStatus(ephemeral_container_statuses=(container(ended("e")),))
    )


def test_a_run_between_two_statuses_is_found_as_the_last_one() -> None:
    before = k8s.PodStatus(container_statuses=(container(RUNNING),))

    assert [("container", 1, "Error")] == ends(
        before, k8s.PodStatus(container_statuses=(container(RUNNING, ended("a", 1)),))
    )
