"""Our status laid over the API server's, the comparison of the two, and the form both have."""

from typing import NamedTuple

import msgspec
import pytest

from core.podkit import container, pod, rule, sidecar
from core.statuskit import EARLIER, NOW, condition, ended, runs, serves, shown, status, stopped, waits
from trikubelet.core.pod_status import comes_back, equal, illegal_transitions, merge, normalize
from trikubelet.model import k8s

replace = msgspec.structs.replace

READY, DISRUPTED = condition("Ready"), condition("DisruptionTarget", "True", reason="TerminationByKubelet")
UNREADY = condition("Ready", "False")
THEIRS = condition("theirs", "Unknown")
FAILED_READY = condition("Ready", "False", reason="PodFailed", last_transition_time=NOW)


def disrupted(time: str = NOW, reason: str = "TerminationByKubelet") -> k8s.PodCondition:
    return condition("DisruptionTarget", "True", reason=reason, last_transition_time=time)


class Case(NamedTuple):
    id: str
    expected: k8s.PodStatus
    reported: k8s.PodStatus
    computed: k8s.PodStatus
    could_run: bool = False


RUNNING = status("Running", UNREADY)
CASES = [
    Case("nothing is new", RUNNING, RUNNING, RUNNING),
    Case(
        "a disruption is told together with the end", status("Failed", disrupted(), UNREADY), RUNNING,
        status("Failed", UNREADY, DISRUPTED),
    ),
    Case(
        "a disruption is not told while containers could run", RUNNING, RUNNING, status("Failed", UNREADY, DISRUPTED),
        True,
    ),
    Case("a disruption is not told of a pod that goes on", RUNNING, RUNNING, status("Running", UNREADY, DISRUPTED)),
    Case("a disruption that others told stays", status("Running", disrupted(EARLIER), UNREADY),
         status("Running", disrupted(EARLIER), UNREADY), RUNNING),
    Case(
        "a disruption that others told is told our way at the end, since they told it",
        status("Failed", disrupted(EARLIER), UNREADY), status("Running", disrupted(EARLIER, "Eviction"), UNREADY),
        status("Failed", UNREADY, DISRUPTED),
    ),
    Case(
        "a disruption that others told is not told our way while running",
        status("Running", disrupted(EARLIER, "Eviction"), UNREADY),
        status("Running", disrupted(EARLIER, "Eviction"), UNREADY), status("Running", UNREADY, DISRUPTED),
    ),
    Case(
        "a disruption that others told is not told our way while containers could run",
        status("Running", disrupted(EARLIER, "Eviction"), UNREADY),
        status("Running", disrupted(EARLIER, "Eviction"), UNREADY), status("Failed", UNREADY, DISRUPTED), True,
    ),
    Case("readiness is ours", status("Running", READY), RUNNING, status("Running", READY)),
    Case("a condition of others stays", status("Running", THEIRS, READY), status("Running", THEIRS, UNREADY),
         status("Running", READY)),
    Case("a condition of others that we remember is not brought back", status("Running", READY), RUNNING,
         status("Running", READY, THEIRS)),
    Case("a condition of others is as the server has it", status("Running", THEIRS, READY),
         status("Running", THEIRS, UNREADY), status("Running", READY, condition("theirs", "True"))),
    Case("a condition of ours that we drop goes", status("Running"), status("Running", condition("PodResizePending")),
         status("Running")),
    Case("the end with nothing left running: it is told, and it is not ready", status("Failed", FAILED_READY),
         status("Running", READY), status("Failed", READY)),
    Case("what was not ready before the end has not been since", status("Failed", replace(FAILED_READY,
         last_transition_time=EARLIER)), status("Running", replace(UNREADY, last_transition_time=EARLIER)),
         status("Failed", READY)),
    Case("the end while containers could run: it is held back", status("Running", READY), RUNNING,
         status("Failed", READY, reason="Evicted", message="no memory"), True),
    Case("an end the server has stays as it is", status("Succeeded", UNREADY, reason="Fine"),
         status("Succeeded", reason="Fine"), status("Running", UNREADY)),
    Case("an end the server has is not turned into the other", status("Succeeded", UNREADY), status("Succeeded"),
         status("Failed", UNREADY, reason="Evicted")),
    Case("the start is told once", status(start_time=EARLIER), status(start_time=EARLIER), status(start_time=NOW)),
    Case("the claims are not ours", status(resource_claim_statuses=(k8s.PodResourceClaimStatus(name="c"),)),
         status(resource_claim_statuses=(k8s.PodResourceClaimStatus(name="c"),)), status()),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_merge(case: Case) -> None:
    assert case.expected == merge(case.reported, case.computed, could_run=case.could_run, now=NOW)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_merging_once_more_changes_nothing_even_later(case: Case) -> None:
    once = merge(case.reported, case.computed, could_run=case.could_run, now=NOW)
    assert once == merge(once, case.computed, could_run=case.could_run, now="2027-01-01T00:00:00Z")


@pytest.mark.parametrize(("reason", "phase"), [("PodCompleted", "Succeeded"), ("PodFailed", "Failed")])
def test_what_has_ended_is_not_ready_and_says_why(reason: str, phase: str) -> None:
    computed = status(phase, READY, condition("ContainersReady", message="well"))
    merged = merge(RUNNING, computed, could_run=False, now=NOW)
    assert [("Ready", "False", reason, ""), ("ContainersReady", "False", reason, "")] == [
        (c.type, c.status, c.reason, c.message) for c in merged.conditions
    ]


# ---- equal ----

FULL = status(
    "Running", READY, condition("Initialized"), THEIRS,
    container_statuses=(serves("a"), runs("b")), init_container_statuses=(stopped("i"), stopped("j")),
    ephemeral_container_statuses=(runs("d"), runs("e")),
)  # fmt: skip


def reversed_lists(of: k8s.PodStatus) -> k8s.PodStatus:
    return replace(
        of,
        conditions=of.conditions[::-1],
        container_statuses=of.container_statuses[::-1],
        init_container_statuses=of.init_container_statuses[::-1],
        ephemeral_container_statuses=of.ephemeral_container_statuses[::-1],
    )


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(FULL, id="the same"),
        pytest.param(reversed_lists(FULL), id="another order"),
        pytest.param(replace(FULL, conditions=FULL.conditions[:2]), id="without a condition of others"),
        pytest.param(
            replace(FULL, conditions=(*FULL.conditions[:2], condition("theirs", "True"))), id="another of others"
        ),
        pytest.param(
            replace(FULL, resource_claim_statuses=(k8s.PodResourceClaimStatus(name="c"),)), id="claims of others"
        ),
    ],
)
def test_statuses_that_are_equal(other: k8s.PodStatus) -> None:
    assert equal(FULL, other)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replace(FULL, phase="Pending"), id="phase"),
        pytest.param(replace(FULL, conditions=FULL.conditions[1:]), id="a condition of ours is missing"),
        pytest.param(replace(FULL, conditions=(UNREADY, *FULL.conditions[1:])), id="a condition of ours differs"),
        pytest.param(replace(FULL, conditions=(*FULL.conditions, DISRUPTED)), id="a disruption"),
        pytest.param(replace(FULL, container_statuses=(serves("a"), serves("b"))), id="a container"),
        pytest.param(replace(FULL, init_container_statuses=(stopped("i"), stopped("j", 1))), id="an init container"),
        pytest.param(replace(FULL, ephemeral_container_statuses=(runs("d"),)), id="an ephemeral container"),
        pytest.param(replace(FULL, pod_ip="10.0.0.1"), id="an address"),
    ],
)
def test_statuses_that_differ(other: k8s.PodStatus) -> None:
    assert not equal(FULL, other)
    assert not equal(other, FULL)


# ---- normalize ----

FINE, WHOLE = "2026-01-01T12:00:00.987654321Z", "2026-01-01T12:00:00Z"


def test_times_are_cut_to_seconds_everywhere() -> None:
    running = k8s.ContainerState(running=k8s.ContainerStateRunning(started_at=FINE))
    over = ended(started_at=FINE, finished_at="2026-01-01T13:00:00.5+01:00")
    found = normalize(
        pod("a"),
        status(
            "Running", condition("Ready", last_probe_time=FINE, last_transition_time=FINE), start_time=FINE,
            container_statuses=(shown("a", running, last_state=over),), init_container_statuses=(shown("i", over),),
            ephemeral_container_statuses=(shown("d", running),),
        ),
    )  # fmt: skip
    done = ended(started_at=WHOLE, finished_at=WHOLE)
    live = k8s.ContainerState(running=k8s.ContainerStateRunning(started_at=WHOLE))
    assert found == status(
        "Running", condition("Ready", last_probe_time=WHOLE, last_transition_time=WHOLE), start_time=WHOLE,
        container_statuses=(shown("a", live, last_state=done),), init_container_statuses=(shown("i", done),),
        ephemeral_container_statuses=(shown("d", live),),
    )  # fmt: skip


def message_of(found: k8s.PodStatus) -> str:
    state = found.container_statuses[0].state
    assert state is not None
    assert state.terminated is not None
    return state.terminated.message


@pytest.mark.parametrize(
    ("share", "it"),
    [(12288, pod("a")), (6144, pod("a", "b")), (3072, pod("a", "b", init=("i",), ephemeral=("d",)))],
    ids=["one container", "two", "two, an init and an ephemeral one"],
)
def test_the_messages_of_a_pod_share_twelve_kibibytes(share: int, it: k8s.Pod) -> None:
    for length in (share - 1, share, share + 1):
        found = normalize(it, status(container_statuses=(shown("a", ended(message="x" * length)),)))
        assert min(length, share) == len(message_of(found))


def test_a_message_is_cut_between_characters() -> None:
    found = normalize(pod("a"), status(container_statuses=(shown("a", ended(message="x" + "ü" * 7000)),)))
    assert "x" + "ü" * 6143 == message_of(found)


def test_a_normal_status_stays_as_it_is() -> None:
    once = normalize(pod("a", "b"), FULL)
    assert once == normalize(pod("a", "b"), once)


def test_a_time_that_is_none_stays_as_it_is() -> None:
    assert "noon" == normalize(pod("a"), status(start_time="noon")).start_time


# ---- what may not happen ----

SIDECAR = pod("a", init=(sidecar("s"), "i"), policy="Never")


class Step(NamedTuple):
    id: str
    expected: int
    pod: k8s.Pod
    before: k8s.ContainerStatus
    after: k8s.ContainerStatus | None


STEPS = [
    Step("Always: any end may be left", 0, pod("a"), stopped("a"), runs("a")),
    Step("OnFailure: a failure may be left", 0, pod("a", policy="OnFailure"), stopped("a", 1), runs("a")),
    Step("OnFailure: a success may not be left", 1, pod("a", policy="OnFailure"), stopped("a"), runs("a")),
    Step("Never: a failure may not be left", 1, pod("a", policy="Never"), stopped("a", 1), runs("a")),
    Step("Never: nor for waiting", 1, pod("a", policy="Never"), stopped("a"), waits("a", 0)),
    Step("Never: nor for nothing", 1, pod("a", policy="Never"), stopped("a"), shown("a", None)),
    Step("an end may stay", 0, pod("a", policy="Never"), stopped("a"), stopped("a")),
    Step("an end may come", 0, pod("a", policy="Never"), runs("a"), stopped("a")),
    Step("a status may be missing", 0, pod("a", policy="Never"), stopped("a"), None),
    Step("its own policy counts", 0, pod(container("a", "Always"), policy="Never"), stopped("a"), runs("a")),
    Step("its own Never counts", 1, pod(container("a", "Never")), stopped("a"), runs("a")),
    Step("a rule that matches lets it go", 0, pod(container("a", "Never", rule("Restart", "In", 42))),
         stopped("a", 42), runs("a")),
    Step("a rule that does not match does not", 1, pod(container("a", "Never", rule("Restart", "In", 42))),
         stopped("a", 1), runs("a")),
    Step("where all may restart, any may", 0,
         pod("a", container("b", "Never", rule("RestartAllContainers", "In", 42)), policy="Never"),
         stopped("a"), waits("a", 0)),
    Step("an end nobody saw may be taken back", 0, pod("a", policy="Never"),
         shown("a", ended(137, reason="ContainerStatusUnknown")), runs("a")),
    Step("a sidecar may always run again", 0, SIDECAR, stopped("s"), runs("s")),
    Step("an init container that is done runs again in a new sandbox", 0, SIDECAR, stopped("i"), runs("i")),
    Step("an init container that failed for good may not", 1, SIDECAR, stopped("i", 1), runs("i")),
]  # fmt: skip


def _whole(one: k8s.ContainerStatus | None) -> k8s.PodStatus:
    statuses = () if one is None else (one,)
    is_init = one is not None and one.name in ("s", "i")
    return status(init_container_statuses=statuses) if is_init else status(container_statuses=statuses)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.id)
def test_a_container_leaves_its_end_only_where_policy_allows(step: Step) -> None:
    found = illegal_transitions(step.pod, _whole(step.before), _whole(step.after))
    assert step.expected == len(found)
    assert all(step.before.name in sentence for sentence in found)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.id)
def test_no_server_takes_a_container_back_that_may_not_run_again_whatever_its_end(step: Step) -> None:
    is_allowed_here_alone = step.id in (
        "an end nobody saw may be taken back",
        "an init container that is done runs again in a new sandbox",
    )
    is_refused = step.expected == 1 or is_allowed_here_alone

    assert is_refused is comes_back(step.pod, _whole(step.before), _whole(step.after))
