"""The last word on a pod: what nobody saw to its end counts as killed, and the pod itself is over."""

from typing import NamedTuple

import pytest

from core.podkit import pod, sidecar
from core.statuskit import EARLIER, NOW, condition, runs, serves, status, stopped, waits
from trikubelet.core.names import CONFIG_SOURCE
from trikubelet.core.pod_status import terminate
from trikubelet.model import k8s

UNKNOWN, WAITS = "137 ContainerStatusUnknown", "waits"


def words(one: k8s.ContainerStatus) -> str:
    assert one.state is not None
    ended = one.state.terminated
    return f"{ended.exit_code} {ended.reason}".strip() if ended is not None else WAITS


class Case(NamedTuple):
    id: str
    expected: dict[str, str]
    pod: k8s.Pod
    init: tuple[k8s.ContainerStatus, ...] = ()
    regular: tuple[k8s.ContainerStatus, ...] = ()


INIT = pod("a", init=("i1", "i2", "i3"))
CASES = [
    Case("ends that were seen stay", {"a": "0", "b": "2"}, pod("a", "b"), (), (stopped("a"), stopped("b", 2))),
    Case("what still waits is unknown", {"a": UNKNOWN}, pod("a"), (), (waits("a"),)),
    Case("what ran when last seen is unknown", {"a": UNKNOWN, "b": "0"}, pod("a", "b"), (), (runs("a"), stopped("b"))),
    Case(
        "nothing began: the first init container is unknown, the rest waits",
        {"i1": UNKNOWN, "i2": WAITS, "i3": WAITS, "a": WAITS}, INIT, (waits("i1"), waits("i2"), waits("i3")),
        (waits("a"),),
    ),
    Case(
        "the first runs: it is unknown, the rest waits", {"i1": UNKNOWN, "i2": WAITS, "i3": WAITS, "a": WAITS}, INIT,
        (runs("i1"), waits("i2"), waits("i3")), (waits("a"),),
    ),
    Case(
        "the first is done: the next waits", {"i1": "0", "i2": WAITS, "i3": WAITS, "a": WAITS}, INIT,
        (stopped("i1"), waits("i2"), waits("i3")), (waits("a"),),
    ),
    Case(
        "the second failed: the last waits", {"i1": "0", "i2": "1", "i3": WAITS, "a": WAITS}, INIT,
        (stopped("i1"), stopped("i2", 1), waits("i3")), (waits("a"),),
    ),
    Case(
        "the second backs off: it had its turn", {"i1": "0", "i2": UNKNOWN, "i3": WAITS, "a": WAITS}, INIT,
        (stopped("i1"), waits("i2", 1), waits("i3")), (waits("a"),),
    ),
    Case(
        "a gap before one that began is unknown", {"i1": UNKNOWN, "i2": "0", "i3": WAITS, "a": WAITS}, INIT,
        (waits("i1"), stopped("i2"), waits("i3")), (waits("a"),),
    ),
    Case(
        "all are done: the regular one had its turn", {"i1": "0", "i2": "0", "i3": "0", "a": UNKNOWN}, INIT,
        (stopped("i1"), stopped("i2"), stopped("i3")), (waits("a"),),
    ),
    Case(
        "the last was killed for memory with code 0: the regular one waits",
        {"i1": "0", "i2": "0", "i3": "0 OOMKilled", "a": WAITS}, INIT,
        (stopped("i1"), stopped("i2"), stopped("i3", reason="OOMKilled")), (waits("a"),),
    ),
    Case(
        "the last is done and waits once more: the regular one had its turn",
        {"i1": "0", "i2": "0", "i3": UNKNOWN, "a": UNKNOWN}, INIT,
        (stopped("i1"), stopped("i2"), waits("i3", 0)), (waits("a"),),
    ),
    Case(
        "a regular one has run: they had their turn, whatever is known of the init ones",
        {"i1": UNKNOWN, "i2": WAITS, "i3": WAITS, "a": UNKNOWN}, INIT, (waits("i1"), waits("i2"), waits("i3")),
        (waits("a", 1),),
    ),
    Case(
        "the sidecar has started: the regular one had its turn", {"s": UNKNOWN, "a": UNKNOWN},
        pod("a", init=(sidecar("s"),)), (serves("s"),), (waits("a"),),
    ),
    Case(
        "the sidecar has not started: the regular one waits", {"s": UNKNOWN, "a": WAITS},
        pod("a", init=(sidecar("s"),)), (runs("s"),), (waits("a"),),
    ),
    Case("no status of the last init container: the regular one waits", {"a": WAITS}, INIT, (), (waits("a"),)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_unseen_end_counts_as_killed(case: Case) -> None:
    before = status("Running", init_container_statuses=case.init, container_statuses=case.regular)
    after = terminate(case.pod, before, NOW)
    found = {one.name: words(one) for one in (*after.init_container_statuses, *after.container_statuses)}
    assert case.expected == found
    assert after == terminate(case.pod, after, "2027-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("after", "before"),
    [("Failed", "Pending"), ("Failed", "Running"), ("Failed", "Unknown"), ("Failed", ""), ("Succeeded", "Succeeded"),
     ("Failed", "Failed")],
)  # fmt: skip
def test_a_pod_that_is_over_has_a_terminal_phase(after: str, before: str) -> None:
    assert after == terminate(pod("a"), status(before), NOW).phase


@pytest.mark.parametrize("phase", ["Pending", "Running", "Succeeded"])
def test_a_static_pod_keeps_its_phase(phase: str) -> None:
    it = pod("a", meta={"annotations": {CONFIG_SOURCE: "file"}})
    assert phase == terminate(it, status(phase), NOW).phase


def test_container_counted_as_killed_is_not_ready_and_keeps_its_last_state() -> None:
    (after,) = terminate(pod("a"), status(container_statuses=(serves("a", restart_count=3),)), NOW).container_statuses
    assert (False, False, 3) == (after.ready, after.started, after.restart_count)


def test_a_pod_that_is_over_is_not_ready() -> None:
    before = status("Running", condition("Ready"), condition("Initialized", last_transition_time=EARLIER))
    assert (
        condition("Ready", "False", reason="PodFailed", last_transition_time=NOW),
        condition("Initialized", last_transition_time=EARLIER),
    ) == terminate(pod("a"), before, NOW).conditions
