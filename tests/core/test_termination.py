"""In which order a pod's containers stop, and how much time each has to say goodbye."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.podkit import container, created, exited, observe, pod, running, sidecar, unknown
from trikubelet.core.actions import KillReason
from trikubelet.core.termination import container_grace, grace_left, kill_stages
from trikubelet.model import k8s
from trikubelet.model.runtime import ContainerState, ContainerStatus

POD = pod("a", "b", init=(sidecar("s1"), "init", sidecar("s2"), sidecar("s3")), ephemeral=("debug",))


def stages(it: k8s.Pod, *seen: ContainerStatus) -> list[set[str]]:
    return [{status.name for status in stage} for stage in kill_stages(it, observe(it, *seen))]


@pytest.mark.parametrize(
    ("expected", "seen"),
    [
        pytest.param([{"a", "b"}], (running("a"), running("b")), id="regular ones stop together"),
        pytest.param(
            [{"a", "b"}, {"s3"}, {"s2"}, {"s1"}],
            (running("s1"), exited("init"), running("s2"), running("s3"), running("a"), running("b")),
            id="sidecars stop after them, the last to start first",
        ),
        pytest.param(
            [{"a", "debug"}, {"s1"}], (running("s1"), running("debug"), running("a"), exited("b")),
            id="ephemeral ones stop with the regular ones, dead ones not at all",
        ),
        pytest.param([{"init"}, {"s1"}], (running("s1"), running("init")), id="it is still initialising"),
        pytest.param([{"s2"}, {"s1"}], (running("s1"), running("s2")), id="only sidecars are left"),
        pytest.param([{"a"}], (unknown("a"), created("b")), id="what may run stops, what never started does not"),
        pytest.param([{"stranger", "a"}], (running("a"), running("stranger")), id="one that the spec does not know"),
        pytest.param([], (exited("a"), created("b")), id="nothing runs"),
        pytest.param([], (), id="nothing exists"),
    ],
)  # fmt: skip
def test_kill_stages(expected: list[set[str]], seen: tuple[ContainerStatus, ...]) -> None:
    assert expected == stages(POD, *seen)


@given(
    st.lists(
        st.sampled_from([make(name) for name in ("a", "b", "s1", "s2", "init", "debug", "stranger")
                         for make in (running, exited, created, unknown)]),
        unique_by=lambda status: status.name,
    )
)  # fmt: skip
def test_whatever_may_run_is_stopped_exactly_once(seen: list[ContainerStatus]) -> None:
    alive = {s.id for s in seen if s.state in (ContainerState.RUNNING, ContainerState.UNKNOWN)}
    stopped = [status.id for stage in kill_stages(POD, observe(POD, *seen)) for status in stage]
    assert sorted(alive) == sorted(stopped)


def probed(grace: int | None) -> k8s.Container:
    probe = k8s.Probe(termination_grace_period_seconds=grace)
    return container("a", liveness_probe=probe, startup_probe=probe)


@pytest.mark.parametrize(
    ("expected", "spec", "deletion", "one", "reason"),
    [
        pytest.param(30, None, None, probed(None), KillReason.HASH_CHANGED, id="nothing is said: 30 s"),
        pytest.param(7, 7, None, probed(None), KillReason.HASH_CHANGED, id="the pod's"),
        pytest.param(7, 7, None, probed(3), KillReason.HASH_CHANGED, id="the probe's is not for other reasons"),
        pytest.param(3, 7, None, probed(3), KillReason.LIVENESS, id="the liveness probe's"),
        pytest.param(3, 7, None, probed(3), KillReason.STARTUP, id="the startup probe's"),
        pytest.param(7, 7, None, probed(None), KillReason.LIVENESS, id="the probe says nothing: the pod's"),
        pytest.param(7, 7, None, container("a"), KillReason.LIVENESS, id="there is no probe: the pod's"),
        pytest.param(7, 7, None, None, KillReason.STARTUP, id="a container the spec does not know: the pod's"),
        pytest.param(2, 7, 2, probed(3), KillReason.LIVENESS, id="a deletion's wins over all"),
        pytest.param(0, 0, None, probed(None), KillReason.HASH_CHANGED, id="none at all"),
    ],
)  # fmt: skip
def test_grace_of_one_container(
    expected: int, spec: int | None, deletion: int | None, one: k8s.Container | None, reason: KillReason
) -> None:
    meta = {"deletion_grace_period_seconds": deletion}
    it = pod("a", meta=meta, termination_grace_period_seconds=spec)
    assert expected == container_grace(it, one, reason)


@pytest.mark.parametrize(
    ("expected", "grace", "used"),
    [(30, 30, 0), (30, 30, 0.9), (21, 30, 9.5), (2, 30, 28), (2, 30, 99), (2, 1, 0), (2, 0, 0)],
)
def test_whole_seconds_that_were_used_are_gone_but_the_runtime_always_has_two_seconds(
    expected: int, grace: int, used: float
) -> None:
    assert expected == grace_left(grace, used)
