"""What ``get pods`` prints: every rule of STATUS, restarts, ages, columns."""

from __future__ import annotations

import pytest

from trikubelet.cli.describe.layout import Layout
from trikubelet.cli.tables import Table
from trikubelet.core.kubectl.pod_row import COLUMNS, WIDE_COLUMNS, in_order, pod_row
from trikubelet.core.kubectl.words import human_duration, since
from trikubelet.core.timestamps import SECOND_NS, parse_rfc3339
from trikubelet.model import k8s

NOW = parse_rfc3339("2026-11-21T12:00:00Z")
MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


def running(name="c", *, ready=True, restarts=0, started=True, last=None):
    state = k8s.ContainerState(running=k8s.ContainerStateRunning(started_at="2026-11-21T11:00:00Z"))
    return _status(name, state, ready, restarts, started, last)


def waiting(reason, name="c", *, restarts=0, last=None):
    state = k8s.ContainerState(waiting=k8s.ContainerStateWaiting(reason=reason))
    return _status(name, state, False, restarts, False, last)


def ended(code, reason="", name="c", *, signal=None, restarts=0):
    done = k8s.ContainerStateTerminated(exit_code=code, reason=reason, signal=signal)
    return _status(name, k8s.ContainerState(terminated=done), False, restarts, False, None)


def _status(name, state, ready, restarts, started, last):
    before = None
    if last is not None:
        done = k8s.ContainerStateTerminated(exit_code=1, reason="Error", finished_at=last)
        before = k8s.ContainerState(terminated=done)
    return k8s.ContainerStatus(
        name=name, image="i", image_id="", ready=ready, restart_count=restarts, started=started, state=state,
        last_state=before,
    )  # fmt: skip


def pod(*statuses, init=(), sidecars=(), conditions=(), deleted=False, phase="Running", reason="", **spec):
    meta = {"name": "web", "namespace": "default", "creation_timestamp": "2026-11-21T11:55:00Z"}
    if deleted:
        meta["deletion_timestamp"] = "2026-11-21T11:59:00Z"
    return k8s.Pod(
        metadata=k8s.ObjectMeta(**meta),
        spec=k8s.PodSpec(
            containers=tuple(k8s.Container(name=s.name) for s in statuses),
            init_containers=tuple(
                k8s.Container(name=s.name, restart_policy="Always" if s.name in sidecars else "") for s in init
            ),
            **spec,
        ),
        status=k8s.PodStatus(
            phase=phase,
            reason=reason,
            container_statuses=statuses,
            init_container_statuses=init,
            conditions=tuple(k8s.PodCondition(type=t, status=s, reason=r) for t, s, r in conditions),
        ),
    )


READY = ("Ready", "True", "")
INITIALIZED = ("Initialized", "True", "")

STATUSES = {
    "the phase when nothing is known of containers": ("Pending", "0/0", pod(phase="Pending")),
    "running": ("Running", "2/2", pod(running("a"), running("b"))),
    "running but not ready": ("Running", "1/2", pod(running("a"), running("b", ready=False))),
    "creating": ("ContainerCreating", "0/1", pod(waiting("ContainerCreating"), phase="Pending")),
    "waiting for its init containers": ("PodInitializing", "0/1", pod(waiting("PodInitializing"), phase="Pending")),
    "crashing": ("CrashLoopBackOff", "1/2", pod(running("a"), waiting("CrashLoopBackOff", "b"))),
    "the first container with a problem wins": ("ErrImagePull", "0/2", pod(waiting("ErrImagePull"), ended(1, "Error"))),
    "no image": ("ImagePullBackOff", "0/1", pod(waiting("ImagePullBackOff"), phase="Pending")),
    "done": ("Completed", "0/1", pod(ended(0, "Completed"), phase="Succeeded")),
    "failed": ("Error", "0/1", pod(ended(3, "Error"), phase="Failed")),
    "out of memory": ("OOMKilled", "0/1", pod(ended(137, "OOMKilled"))),
    "an exit code without a reason": ("ExitCode:3", "0/1", pod(ended(3))),
    "a signal without a reason": ("Signal:9", "0/1", pod(ended(137, signal=9))),
    "one done, one running": ("NotReady", "1/2", pod(ended(0, "Completed", "a"), running("b"))),
    "one done, one running, ready": (
        "Running", "1/2", pod(ended(0, "Completed", "a"), running("b"), conditions=[READY]),
    ),
    "evicted, and its containers say more": (
        "Error", "0/1", pod(ended(137, "Error"), phase="Failed", reason="Evicted"),
    ),
    "a reason of the whole pod without containers": ("Evicted", "0/0", pod(phase="Failed", reason="Evicted")),
    "gated": (
        "SchedulingGated", "0/0", pod(phase="Pending", conditions=[("PodScheduled", "False", "SchedulingGated")]),
    ),
    "going": ("Terminating", "1/1", pod(running(), deleted=True)),
    "going and lost": ("Unknown", "1/1", pod(running(), deleted=True, reason="NodeLost")),
    "gone but still there": ("Completed", "0/1", pod(ended(0, "Completed"), deleted=True, phase="Succeeded")),
    "the first init container runs": (
        "Init:0/2", "0/1", pod(waiting("PodInitializing"), init=(running("i"), waiting("PodInitializing", "j"))),
    ),
    "the second init container runs": (
        "Init:1/2", "0/1", pod(waiting("PodInitializing"), init=(ended(0, "Completed", "i"), running("j"))),
    ),
    "an init container crashes": (
        "Init:CrashLoopBackOff", "0/1", pod(waiting("PodInitializing"), init=(waiting("CrashLoopBackOff", "i"),)),
    ),
    "an init container failed": (
        "Init:Error", "0/1", pod(waiting("PodInitializing"), init=(ended(1, "Error", "i"),)),
    ),
    "an init container failed without a reason": (
        "Init:ExitCode:4", "0/1", pod(waiting("PodInitializing"), init=(ended(4, "", "i"),)),
    ),
    "an init container was killed without a reason": (
        "Init:Signal:9", "0/1", pod(waiting("PodInitializing"), init=(ended(137, "", "i", signal=9),)),
    ),
    "a sidecar counts": (
        "Running", "2/2", pod(running("a"), init=(running("s"),), sidecars=["s"]),
    ),
    "a sidecar that has not started": (
        "Init:0/1", "0/2",
        pod(waiting("PodInitializing"), init=(running("s", ready=False, started=False),), sidecars=["s"]),
    ),
    "a sidecar that crashes": (
        "Init:CrashLoopBackOff", "0/2",
        pod(running("a"), init=(waiting("CrashLoopBackOff", "s"),), sidecars=["s"]),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("word", "ready", "shown"), STATUSES.values(), ids=STATUSES)
def test_status_says_in_one_word_how_the_pod_is(word: str, ready: str, shown: k8s.Pod) -> None:
    row = pod_row(shown, NOW)

    assert (word, ready) == (row.status, row.ready)


def test_an_initialized_pod_speaks_of_its_containers_even_if_an_init_container_runs_again() -> None:
    shown = pod(running("a"), init=(waiting("CrashLoopBackOff", "s"),), sidecars=["s"], conditions=[INITIALIZED])

    assert ("Init:CrashLoopBackOff", "1/2") == (pod_row(shown, NOW).status, pod_row(shown, NOW).ready)


def test_a_pod_without_a_status_is_pending() -> None:
    bare = k8s.Pod(metadata=k8s.ObjectMeta(name="web"), spec=k8s.PodSpec(containers=(k8s.Container(name="c"),)))

    row = pod_row(bare, NOW)

    assert ("Pending", "0/1", "0", "<unknown>") == (row.status, row.ready, row.restarts, row.age)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("0", pod(running())),
        ("3 (10s ago)", pod(running(restarts=3, last="2026-11-21T11:59:50Z"))),
        ("3", pod(running(restarts=3))),
        (
            "5 (2m ago)",
            pod(
                running("a", restarts=2, last="2026-11-21T11:58:00Z"),
                running("b", restarts=3, last="2026-11-21T11:00:00Z"),
            ),
        ),
        ("1", pod(running(restarts=1), init=(ended(0, "Completed", "i", restarts=4),))),
        ("4", pod(waiting("PodInitializing"), init=(ended(1, "Error", "i", restarts=4),))),
        (
            "3 (60s ago)",
            pod(
                running("a", restarts=1),
                init=(running("s", restarts=2, last="2026-11-21T11:59:00Z"),),
                sidecars=["s"],
                conditions=[INITIALIZED],
            ),
        ),
    ],
)
def test_restarts_are_those_of_what_the_pod_is_busy_with_and_name_the_last(said: str, shown: k8s.Pod) -> None:
    assert said == pod_row(shown, NOW).restarts


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("<invalid>", -2),
        ("0s", -1),
        ("0s", 0),
        ("119s", 119),
        ("2m", 120),
        ("9m59s", 10 * MINUTE - 1),
        ("10m", 10 * MINUTE + 59),
        ("179m", 3 * HOUR - 1),
        ("3h", 3 * HOUR + 59),
        ("7h59m", 8 * HOUR - 1),
        ("8h", 8 * HOUR + 59 * MINUTE),
        ("47h", 48 * HOUR - 1),
        ("2d", 48 * HOUR),
        ("7d23h", 8 * DAY - 1),
        ("8d", 8 * DAY + 23 * HOUR),
        ("729d", 2 * YEAR - 1),
        ("2y", 2 * YEAR),
        ("7y364d", 8 * YEAR - 1),
        ("8y", 8 * YEAR + 300 * DAY),
    ],
)
def test_an_age_has_two_units_at_most_and_gets_coarser(said: str, seconds: int) -> None:
    assert said == human_duration(seconds)


def test_what_lies_less_than_a_second_ahead_is_now() -> None:
    assert "0s" == since("2026-11-21T12:00:00Z", NOW - SECOND_NS // 2)


def test_pods_stand_under_their_headings() -> None:
    table = Table(COLUMNS)
    rows = [
        pod_row(one, NOW).cells[: len(COLUMNS)]
        for one in (pod(running()), pod(waiting("CrashLoopBackOff", restarts=12)))
    ]

    assert [
        "NAME   READY   STATUS             RESTARTS   AGE",
        "web    1/1     Running            0          5m",
        "web    0/1     CrashLoopBackOff   12         5m",
    ] == table.lines(rows)


def test_wide_rows_have_addresses() -> None:
    shown = pod(running(), node_name="n1", readiness_gates=(k8s.PodReadinessGate(condition_type="Ready"),))

    assert [
        "NAME   READY   STATUS    RESTARTS   AGE   IP       NODE   NOMINATED NODE   READINESS GATES",
        "web    1/1     Running   0          5m    <none>   n1     <none>           0/1",
    ] == Table((*COLUMNS, *WIDE_COLUMNS)).lines([pod_row(shown, NOW).cells])


def test_headings_can_be_left_out_and_widths_are_then_those_of_the_cells() -> None:
    assert ["a    b", "cc   d"] == Table(["HEADING", "X"], show_headings=False).lines([("a", "b"), ("cc", "d")])


def test_a_watch_prints_headings_once_and_keeps_its_columns() -> None:
    table = Table(["NAME", "AGE"])

    assert [] == table.lines([])
    assert ["NAME          AGE", "a-long-name   5m"] == table.lines([("a-long-name", "5m")])
    assert ["b             1s"] == table.lines([("b", "1s")])


def test_what_a_container_says_cannot_move_the_cursor() -> None:
    assert ["a^[[2Kb c^?\\x9b   d"] == Table(["X", "Y"], show_headings=False).lines([("a\x1b[2Kb\nc\x7f\x9b\n", "d")])

    layout = Layout()
    layout.field(0, "Message", "one\rtwo")
    assert ["Message:  one^Mtwo"] == layout.lines()


def test_pods_are_listed_by_namespace_and_name_and_the_older_life_first() -> None:
    def named(namespace: str, name: str, born: str) -> k8s.Pod:
        meta = k8s.ObjectMeta(namespace=namespace, name=name, creation_timestamp=born)
        return k8s.Pod(metadata=meta, spec=k8s.PodSpec(containers=()))

    old, new = named("a", "x", "2026-11-20T00:00:00Z"), named("a", "x", "2026-11-21T00:00:00Z")
    other, first = named("b", "a", ""), named("a", "b", "")

    assert [first, old, new, other] == in_order([other, new, old, first])
