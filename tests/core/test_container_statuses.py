"""What each container is shown as: its state, its last state, and what a status remembers for the runtime."""

from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
import pytest

from core.podkit import BOX, container, created, exited, observe, pod, rule, running, sidecar, unknown
from core.statuskit import NOW, by_name, runs, stopped, waits
from trikubelet.core.actions import Verdict, Verdicts, plan
from trikubelet.core.pod_status.containers import (
    INIT_DONE_MESSAGE,
    NOT_FOUND_MESSAGE,
    ContainerFacts,
    container_statuses,
    ephemeral_statuses,
)
from trikubelet.model import k8s
from trikubelet.model.runtime import ContainerStatus

STARTED, FINISHED = "1970-01-01T00:16:40Z", "1970-01-01T00:17:40Z"
PLAIN = pod("a")
NOTE = ("CrashLoopBackOff", "back-off 10s")


def status_of(
    it: k8s.Pod, *seen: ContainerStatus, facts: ContainerFacts | None = None, init: bool = False
) -> k8s.ContainerStatus:
    """The status of the pod's first container."""
    containers = it.spec.init_containers if init else it.spec.containers
    return container_statuses(it, containers, observe(it, *seen), facts or ContainerFacts(), init=init)[0]


def state_words(state: k8s.ContainerState | None) -> str:
    """A state in a word or two."""
    if state is None:
        return "-"
    if state.running is not None:
        return f"running since {state.running.started_at}"
    if state.waiting is not None:
        return f"waiting {state.waiting.reason}"
    assert state.terminated is not None
    return f"ended {state.terminated.exit_code} {state.terminated.reason}"


class Case(NamedTuple):
    id: str
    state: str
    seen: tuple[ContainerStatus, ...]
    last: str = "-"
    waiting: dict[str, tuple[str, str]] | None = None
    pod: k8s.Pod = PLAIN


NEVER, ON_FAILURE = pod("a", policy="Never"), pod("a", policy="OnFailure")
BACKS_OFF = ("CrashLoopBackOff", "back-off 10s")
NOTED = {"a": NOTE}

UNKNOWN_END = "ended 137 ContainerStatusUnknown"
CASES = [
    Case("nothing was made yet", "waiting ContainerCreating", ()),
    Case("nothing was made yet, init containers come first", "waiting PodInitializing", (), pod=pod("a", init=("i",))),
    Case("nothing was made, and it is known why", "waiting ErrImagePull", (), waiting={"a": ("ErrImagePull", "no")}),
    Case("made, not started", "waiting ContainerCreating", (created("a"),)),
    Case("made, not started, and it is known why", "waiting CrashLoopBackOff", (created("a"),), waiting=NOTED),
    Case("it runs", f"running since {STARTED}", (running("a"),)),
    Case("it runs, a stale note says nothing", f"running since {STARTED}", (running("a"),), waiting=NOTED),
    Case("it runs again", f"running since {STARTED}", (exited("a", 3), running("a", 1)), "ended 3 Error"),
    Case("it succeeded", "ended 0 Completed", (exited("a"),), pod=NEVER),
    Case("it failed", "ended 3 Error", (exited("a", 3),), pod=NEVER),
    Case("the runtime knows why it ended", "ended 137 OOMKilled", (exited("a", 137, reason="OOMKilled"),), pod=NEVER),
    Case("it failed and runs again soon", "ended 3 Error", (exited("a", 3),)),
    Case("it failed and backs off", "waiting CrashLoopBackOff", (exited("a", 3),), "ended 3 Error", NOTED),
    Case("a note does not bring back what is over", "ended 0 Completed", (exited("a"),), "-", NOTED, ON_FAILURE),
    Case("it failed twice", "ended 4 Error", (exited("a", 3), exited("a", 4, 1)), "ended 3 Error"),
    Case("unknown", "ended 137 ContainerStatusUnknown", (unknown("a"),)),
    Case("unknown, made again though it may not", "waiting ContainerCreating", (unknown("a"),), UNKNOWN_END, pod=NEVER),
    Case("unknown, the pod is being deleted", UNKNOWN_END, (unknown("a"),),
         pod=pod("a", policy="Never", meta={"deletion_timestamp": NOW})),
    Case(
        "between two ends something was made and never started", "ended 4 Error",
        (exited("a", 3), created("a", 1), exited("a", 4, 2)), "ended 3 Error",
    ),
]  # fmt: skip


def test_in_a_pod_with_init_containers_these_and_ephemeral_ones_wait_for_its_initialization_too() -> None:
    it = pod("a", init=("i", "j"), ephemeral=("debug",))
    seen, facts = observe(it, exited("i", 3)), ContainerFacts(waiting={"i": NOTE})
    shown = container_statuses(it, it.spec.init_containers, seen, facts, init=True)
    shown += ephemeral_statuses(it, seen, facts)
    wanted = ["waiting CrashLoopBackOff", "waiting PodInitializing", "waiting PodInitializing"]
    assert wanted == [state_words(one.state) for one in shown]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_state_and_last_state(case: Case) -> None:
    shown = status_of(case.pod, *case.seen, facts=ContainerFacts(waiting=case.waiting or {}))
    assert (case.state, case.last) == (state_words(shown.state), state_words(shown.last_state))


def test_a_status_says_what_the_runtime_has() -> None:
    seen = replace(running("a", 4), id="abc", image_ref="image@sha256:1", image_id="sha256:1")
    shown = status_of(PLAIN, seen)
    assert ("a", "image:1", "image@sha256:1", "containerd://abc", 4, True, True) == (
        shown.name, shown.image, shown.image_id, shown.container_id, shown.restart_count, shown.ready, shown.started,
    )  # fmt: skip


def test_the_image_is_the_one_the_runtime_names_or_else_the_specs() -> None:
    assert ("other:2", "image:1") == (
        status_of(PLAIN, replace(running("a"), image="other:2")).image,
        status_of(PLAIN, replace(running("a"), image="")).image,
    )


def test_container_that_was_never_created_has_no_restarts_and_is_not_ready() -> None:
    shown = status_of(PLAIN)
    assert ("image:1", "", 0, False, False) == (
        shown.image, shown.container_id, shown.restart_count, shown.ready, shown.started,
    )  # fmt: skip


def test_the_restart_count_never_goes_back() -> None:
    facts = ContainerFacts(previous=by_name(waits("a", restart_count=3)))
    assert [3, 5] == [status_of(PLAIN, running("a", attempt), facts=facts).restart_count for attempt in (1, 5)]


def test_an_end_says_when_how_and_which() -> None:
    shown = status_of(NEVER, exited("a", 3), facts=ContainerFacts("rt", messages={"a-0": "goodbye"}))
    assert (
        k8s.ContainerStateTerminated(
            exit_code=3,
            reason="Error",
            message="goodbye",
            started_at=STARTED,
            finished_at=FINISHED,
            container_id="rt://a-0",
        )
        == (shown.state or k8s.ContainerState()).terminated
    )


def test_statuses_are_sorted_by_name_and_those_of_init_containers_as_in_the_spec() -> None:
    it = pod("b", "a", "c", init=("j", "i"), ephemeral=("z", "y"))
    seen, facts = observe(it, running("a")), ContainerFacts()
    assert ["a", "b", "c"] == [s.name for s in container_statuses(it, it.spec.containers, seen, facts, init=False)]
    assert ["j", "i"] == [s.name for s in container_statuses(it, it.spec.init_containers, seen, facts, init=True)]
    assert ["y", "z"] == [s.name for s in ephemeral_statuses(it, seen, facts)]


# ---- ready and started ----


FAILS, SERVES, UNASKED = Verdict.FAILURE, Verdict.SUCCESS, Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("expected", "startup", "readiness"),
    [
        ((True, True), None, None),
        ((True, True), SERVES, SERVES),
        ((True, True), None, SERVES),
        ((True, True), SERVES, None),
        ((True, False), SERVES, FAILS),
        ((True, False), None, UNASKED),
        ((False, False), UNASKED, SERVES),
        ((False, False), FAILS, None),
    ],
)
def test_a_running_container_is_ready_when_both_its_probes_say_so(
    expected: tuple[bool, bool], startup: Verdict | None, readiness: Verdict | None
) -> None:
    it = pod("a")
    probed = msgspec.structs.replace(
        it.spec.containers[0],
        startup_probe=None if startup is None else k8s.Probe(),
        readiness_probe=None if readiness is None else k8s.Probe(),
    )
    it = msgspec.structs.replace(it, spec=msgspec.structs.replace(it.spec, containers=(probed,)))
    verdicts = Verdicts(startup={"a-0": startup or UNASKED}, readiness={"a-0": readiness or UNASKED})
    shown = status_of(it, running("a"), facts=ContainerFacts(verdicts=verdicts))
    assert expected == (shown.started, shown.ready)


def test_container_without_probe_results_is_not_ready() -> None:
    probed = msgspec.structs.replace(PLAIN.spec.containers[0], readiness_probe=k8s.Probe())
    it = msgspec.structs.replace(PLAIN, spec=msgspec.structs.replace(PLAIN.spec, containers=(probed,)))
    shown = status_of(it, running("a"))
    assert (True, False) == (shown.started, shown.ready)


@pytest.mark.parametrize("seen", [created("a"), exited("a"), exited("a", 1), unknown("a")], ids=lambda s: s.state.name)
def test_a_container_that_does_not_run_is_neither_started_nor_ready(seen: ContainerStatus) -> None:
    shown = status_of(PLAIN, seen)
    assert (False, False) == (shown.started, shown.ready)


@pytest.mark.parametrize(
    ("ready", "seen"), [
        (True, exited("i")), (False, exited("i", 1)), (False, exited("i", reason="OOMKilled")), (False, running("i"))
    ],
)  # fmt: skip
def test_a_plain_init_container_is_ready_when_it_succeeded(ready: bool, seen: ContainerStatus) -> None:
    assert ready == status_of(pod("a", init=("i",)), seen, init=True).ready


@pytest.mark.parametrize(("ready", "seen"), [(True, running("i")), (False, exited("i"))])
def test_a_sidecar_is_ready_while_it_serves(ready: bool, seen: ContainerStatus) -> None:
    assert ready == status_of(pod("a", init=(sidecar("i"),)), seen, init=True).ready


def test_an_init_container_that_is_done_never_waits_whatever_was_noted() -> None:
    shown = status_of(pod("a", init=("i",)), exited("i"), facts=ContainerFacts(waiting={"i": NOTE}), init=True)
    assert "ended 0 Completed" == state_words(shown.state)


# ---- what the runtime has forgotten ----


def remembering(previous: k8s.ContainerStatus, **waiting: tuple[str, str]) -> ContainerFacts:
    return ContainerFacts(previous=by_name(previous), waiting=waiting)


class Lost(NamedTuple):
    id: str
    state: str
    last: str
    restarts: int
    previous: k8s.ContainerStatus
    pod: k8s.Pod = PLAIN
    waiting: dict[str, tuple[str, str]] | None = None


DELETED = pod("a", meta={"deletion_timestamp": "2026-01-01T00:00:00Z"})
ALL = rule("RestartAllContainers", "In", 42)

LOST = [
    Lost("it ran: ended unseen, and will be started again", "waiting ContainerCreating", UNKNOWN_END, 3,
         runs("a", restart_count=2)),
    Lost("it ran, the pod is being deleted: ended unseen, and that is all", "waiting ContainerCreating", UNKNOWN_END, 2,
         runs("a", restart_count=2), DELETED),
    Lost("it had ended: it has ended", "ended 0 ", "-", 2, stopped("a", restart_count=2), NEVER),
    Lost("it had ended for good, whatever was noted", "ended 3 ", "-", 2, stopped("a", 3, restart_count=2), NEVER,
         NOTED),
    Lost("it had ended and backs off", "waiting CrashLoopBackOff", "ended 3 ", 2, stopped("a", 3, restart_count=2),
         PLAIN, NOTED),
    Lost("it waited and had ended before", "waiting ContainerCreating", "ended 3 ", 2, waits("a", 3, restart_count=2)),
    Lost("it waited: it waits", "waiting ContainerCreating", "-", 0, waits("a")),
    Lost("its end restarted all", "waiting RestartingAllContainers", "ended 42 ", 2,
         stopped("a", 42, restart_count=2), pod(container("a", "Never", ALL))),
]  # fmt: skip


@pytest.mark.parametrize("case", LOST, ids=lambda case: case.id)
def test_a_container_the_runtime_has_nothing_of(case: Lost) -> None:
    shown = status_of(case.pod, facts=remembering(case.previous, **(case.waiting or {})))
    found = (state_words(shown.state), state_words(shown.last_state), shown.restart_count)
    assert (case.state, case.last, case.restarts) == found


def test_unseen_end_has_its_own_reason() -> None:
    last = status_of(PLAIN, facts=remembering(runs("a", container_id="containerd://x"))).last_state
    assert last is not None
    assert last.terminated is not None
    assert (NOT_FOUND_MESSAGE, "containerd://x") == (last.terminated.message, last.terminated.container_id)


def test_an_init_container_that_was_done_and_pruned_is_still_done() -> None:
    done = stopped("i", ready=True, container_id="containerd://i-0")
    kept = msgspec.structs.replace(done, started=False)
    assert kept == status_of(pod("a", init=("i",)), facts=remembering(done), init=True)


@pytest.mark.parametrize("regular", [running("a"), created("a"), exited("a", 3)], ids=lambda one: one.state.value)
@pytest.mark.parametrize("previous", [None, waits("i"), runs("i")], ids=["nothing", "waiting", "running"])
def test_init_container_without_a_record_has_completed_when_a_regular_container_was_made(
    regular: ContainerStatus, previous: k8s.ContainerStatus | None
) -> None:
    facts = remembering(previous) if previous is not None else ContainerFacts()
    shown = status_of(pod("a", init=("i",)), regular, facts=facts, init=True)
    assert ("ended 0 Completed", True) == (state_words(shown.state), shown.ready)
    assert shown.state is not None
    assert shown.state.terminated is not None
    assert INIT_DONE_MESSAGE == shown.state.terminated.message


@pytest.mark.parametrize(
    ("seen", "waiting", "made"),
    [
        pytest.param((), {}, pod("a", init=("i",)), id="no regular container was made"),
        pytest.param((exited("a", sandbox_id="old"),), {}, pod("a", init=("i",)), id="it ended in an older sandbox"),
        pytest.param((unknown("a"),), {}, pod("a", init=("i",)), id="the regular container is lost"),
        pytest.param((running("a"),), {"i": BACKS_OFF}, pod("a", init=("i",)), id="it waits for something"),
        pytest.param((running("a"),), {}, pod("a", init=(sidecar("i"),)), id="it is a sidecar"),
    ],
)
def test_init_container_without_a_record_waits_otherwise(
    seen: tuple[ContainerStatus, ...], waiting: dict[str, tuple[str, str]], made: k8s.Pod
) -> None:
    shown = status_of(made, *seen, facts=ContainerFacts(waiting=waiting), init=True)
    assert state_words(shown.state).startswith("waiting ")


def test_end_of_an_init_container_that_was_seen_is_kept_when_its_record_is_gone() -> None:
    done = stopped("i", ready=True, container_id="containerd://i-0")
    shown = status_of(pod("a", init=("i",)), running("a"), facts=remembering(done), init=True)
    assert msgspec.structs.replace(done, started=False) == shown


@pytest.mark.parametrize(
    ("last", "previous"),
    [
        pytest.param("ended 3 ", stopped("a", 3, container_id="containerd://a-0"), id="an end of another container"),
        pytest.param("ended 3 ", waits("a", 3, container_id="containerd://a-0"), id="an end it had waited after"),
        pytest.param("ended 3 ", waits("a", 3, container_id="containerd://a-1"), id="an end of its predecessor"),
        pytest.param("-", stopped("a", 3, container_id="containerd://a-1"), id="its own end is not its last"),
    ],
)
def test_the_last_end_outlives_the_container_it_was_of(last: str, previous: k8s.ContainerStatus) -> None:
    assert last == state_words(status_of(PLAIN, running("a", 1), facts=remembering(previous)).last_state)


def test_while_all_restart_a_container_that_was_taken_away_says_why_it_waits() -> None:
    it = pod("a", container("boss", "Never", ALL))
    facts = ContainerFacts(previous=by_name(runs("a", restart_count=1)))
    shown = container_statuses(it, it.spec.containers, observe(it, exited("boss", 42)), facts, init=False)[0]
    assert ("waiting RestartingAllContainers", "ended 137 RestartingAllContainers", 2) == (
        state_words(shown.state), state_words(shown.last_state), shown.restart_count,
    )  # fmt: skip


def test_while_the_cause_of_a_restart_of_all_backs_off_all_others_wait_for_that() -> None:
    it = pod(container("a", "Never"), container("boss", "Never", ALL))
    facts = ContainerFacts(previous=by_name(waits("a", 0), stopped("boss", 42)), waiting={"boss": BACKS_OFF})
    shown = container_statuses(it, it.spec.containers, observe(it, exited("boss", 42)), facts, init=False)
    assert ["waiting RestartingAllContainers", "waiting CrashLoopBackOff"] == [state_words(s.state) for s in shown]
    assert ["ended 0 ", "ended 42 Error"] == [state_words(s.last_state) for s in shown]


@pytest.mark.parametrize(
    ("waits_for", "before"),
    [
        ("RestartingAllContainers", BACKS_OFF),
        ("ContainerCreating", ("RestartingAllContainers", "")),
        ("ContainerCreating", ("ImagePullBackOff", "its image is away")),
    ],
)
def test_a_cause_that_backed_off_was_taken_away_to_start_over(waits_for: str, before: tuple[str, str]) -> None:
    it = pod("a", container("boss", "Never", ALL))
    boss = waits("boss", 42)
    waiting = k8s.ContainerState(waiting=k8s.ContainerStateWaiting(reason=before[0], message=before[1]))
    facts = ContainerFacts(previous=by_name(waits("a", 0), msgspec.structs.replace(boss, state=waiting)))
    shown = container_statuses(it, it.spec.containers, observe(it), facts, init=False)
    assert [f"waiting {waits_for}"] * 2 == [state_words(s.state) for s in shown]


def test_after_the_cause_of_a_restart_of_all_was_taken_away_nothing_is_over_any_more() -> None:
    it = pod(container("a", "Never"), container("boss", "Never", ALL))
    facts = ContainerFacts(previous=by_name(stopped("a"), stopped("boss", 42)))
    shown = container_statuses(it, it.spec.containers, observe(it), facts, init=False)
    assert ["waiting RestartingAllContainers"] * 2 == [state_words(s.state) for s in shown]


# ---- ephemeral ones ----


@pytest.mark.parametrize(
    ("expected", "seen"),
    [
        ("waiting ContainerCreating", ()),
        (f"running since {STARTED}", (running("debug"),)),
        ("ended 3 Error", (exited("debug", 3),)),
    ],
)
def test_an_ephemeral_container_is_shown_and_never_ready_nor_said_to_have_started(
    expected: str, seen: tuple[ContainerStatus, ...]
) -> None:
    it = pod(ephemeral=("debug",))
    (shown,) = ephemeral_statuses(it, observe(it, *seen), ContainerFacts())
    assert (expected, False, 0) == (state_words(shown.state), shown.ready, shown.restart_count)
    assert not shown.started


@pytest.mark.parametrize(
    ("expected", "fields", "able"),
    [
        pytest.param((None, ""), {}, True, id="writable"),
        pytest.param((None, ""), {"read_only": False}, True, id="writable, said aloud"),
        pytest.param((True, "Disabled"), {"read_only": True}, True, id="read-only"),
        pytest.param((True, "Enabled"), {"read_only": True, "recursive_read_only": "IfPossible"}, True, id="all down"),
        pytest.param((True, "Disabled"), {"read_only": True, "recursive_read_only": "IfPossible"}, False, id="unable"),
    ],
)
@pytest.mark.parametrize("seen", [(), (running("a"),)])
def test_what_is_mounted_is_shown_with_how_far_down_it_is_read_only(
    expected: tuple[bool | None, str], fields: dict[str, Any], able: bool, seen: tuple[ContainerStatus, ...]
) -> None:
    """As upstream's kubelet v1.36.3 shows it, of containers that wait too."""
    it = pod(container("a", volume_mounts=(k8s.VolumeMount(name="v", mount_path="/v/", **fields),)))

    (shown,) = status_of(it, *seen, facts=ContainerFacts(recursive_read_only=able)).volume_mounts

    assert ("v", "/v/", *expected) == (shown.name, shown.mount_path, shown.read_only, shown.recursive_read_only)


def test_an_ephemeral_container_that_has_ended_is_shown_so_when_its_record_is_gone() -> None:
    it = pod("a", ephemeral=("debug",))
    (before,) = ephemeral_statuses(it, observe(it, exited("debug", 3)), ContainerFacts())
    (after,) = ephemeral_statuses(it, observe(it), ContainerFacts(previous={"debug": before}))

    assert "ended 3 Error" == state_words(after.state)
    assert before == after


def test_an_ephemeral_container_that_ran_has_ended_when_its_record_is_gone() -> None:
    it = pod("a", ephemeral=("debug",))
    (before,) = ephemeral_statuses(it, observe(it, running("debug")), ContainerFacts())
    (after,) = ephemeral_statuses(it, observe(it), ContainerFacts(previous={"debug": before}))

    assert after.state is not None
    assert after.state.terminated is not None
    assert (137, "ContainerStatusUnknown") == (after.state.terminated.exit_code, after.state.terminated.reason)
    assert (before.container_id, 0, False) == (after.container_id, after.restart_count, after.ready)
    shown = k8s.PodStatus(ephemeral_container_statuses=(after,))
    assert () == plan(it, observe(it, running("a"), sandboxes=(BOX,)), shown=shown).ephemeral_to_start
