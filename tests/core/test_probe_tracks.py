"""What follows from the results of probes: tables, and a plain model for everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.podkit import container, pod, sidecar
from trikubelet.core.actions import Verdict
from trikubelet.core.probes import (
    ProbeKind,
    Track,
    begin,
    end,
    failures_count_after,
    first_delay,
    kept,
    probes_of,
    record_result,
)
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Sequence

LIVENESS, READINESS, STARTUP = ProbeKind.LIVENESS, ProbeKind.READINESS, ProbeKind.STARTUP
SUCCESS, FAILURE, UNKNOWN = Verdict.SUCCESS, Verdict.FAILURE, Verdict.UNKNOWN


def tracks_after(kind: ProbeKind, probe: k8s.Probe, answers: Sequence[Verdict]) -> list[Track]:
    """The track after each answer, as long as it is asked."""
    tracks = [begin(kind, "c")]
    for answer in answers:
        if tracks[-1].on_hold:
            break
        tracks.append(record_result(kind, probe, tracks[-1], answer))
    return tracks


def word(letter: str) -> Verdict:
    return SUCCESS if letter == "w" else FAILURE


@pytest.mark.parametrize(("kind", "at_first"), [(LIVENESS, SUCCESS), (READINESS, FAILURE), (STARTUP, UNKNOWN)])
def test_before_the_first_answer_a_container_is_alive_not_ready_and_perhaps_started(
    kind: ProbeKind, at_first: Verdict
) -> None:
    assert Track("c", at_first) == begin(kind, "c")


@pytest.mark.parametrize(
    ("kind", "successes", "failures", "answers", "verdicts"),
    [
        (READINESS, 1, 3, "w", "w"),
        (READINESS, 2, 3, "wfww", "fffw"),
        (READINESS, 1, 1, "wfw", "wfw"),
        (READINESS, 1, 3, "wffwfff", "wwwwwwf"),
        (LIVENESS, 1, 3, "ffwfff", "wwwwwf"),
        (LIVENESS, 1, 1, "f", "f"),
        (STARTUP, 1, 3, "ffw", "uuw"),
        (STARTUP, 1, 3, "fff", "uuf"),
    ],
)
def test_a_verdict_takes_as_many_results_in_a_row_as_its_threshold_says(
    kind: ProbeKind, successes: int, failures: int, answers: str, verdicts: str
) -> None:
    probe = k8s.Probe(success_threshold=successes, failure_threshold=failures)
    found = [track.verdict for track in tracks_after(kind, probe, list(map(word, answers)))[1:]]

    assert [{"w": SUCCESS, "f": FAILURE, "u": UNKNOWN}[letter] for letter in verdicts] == found


@pytest.mark.parametrize(
    ("kind", "result", "on_hold"),
    [
        (LIVENESS, FAILURE, True),
        (LIVENESS, SUCCESS, False),
        (READINESS, FAILURE, False),
        (READINESS, SUCCESS, False),
        (STARTUP, FAILURE, True),
        (STARTUP, SUCCESS, True),
    ],
)
def test_killed_or_started_container_is_not_probed_again(kind: ProbeKind, result: Verdict, on_hold: bool) -> None:
    assert on_hold is record_result(kind, k8s.Probe(failure_threshold=1), begin(kind, "c"), result).on_hold


def test_the_thresholds_are_three_failures_and_one_success_unless_the_probe_says_so() -> None:
    tracks = tracks_after(READINESS, k8s.Probe(), [SUCCESS, FAILURE, FAILURE, FAILURE])

    assert [FAILURE, SUCCESS, SUCCESS, SUCCESS, FAILURE] == [track.verdict for track in tracks]


@pytest.mark.parametrize("kind", list(ProbeKind))
def test_container_being_stopped_counts_as_alive_and_keeps_its_readiness(kind: ProbeKind) -> None:
    ended = end(kind, begin(kind, "c"))

    expected = Track("c", FAILURE) if kind is READINESS else Track("c", SUCCESS, on_hold=True)
    assert expected == ended


@given(
    st.sampled_from(ProbeKind),
    st.integers(1, 5),
    st.integers(1, 5),
    st.lists(st.sampled_from([SUCCESS, FAILURE]), max_size=40),
)
def test_the_fold_agrees_with_looking_back_at_all_results(
    kind: ProbeKind, successes: int, failures: int, answers: list[Verdict]
) -> None:
    """The model keeps every answer: the verdict is the last one that was given often enough in a row."""
    probe = k8s.Probe(success_threshold=successes, failure_threshold=failures)
    tracks = tracks_after(kind, probe, answers)

    verdict, count = begin(kind, "c").verdict, 0
    for count in range(1, len(answers) + 1):
        last = answers[count - 1]
        needed = successes if last is SUCCESS else failures
        row = answers[max(0, count - needed) : count]
        if len(row) == needed and set(row) == {last}:
            verdict = last
        assert verdict is tracks[count].verdict
        final = {LIVENESS: {FAILURE}, READINESS: set(), STARTUP: {SUCCESS, FAILURE}}[kind]
        assert (verdict in final) is tracks[count].on_hold
        if verdict in final:
            break
    assert count == len(tracks) - 1


# ---- who is probed, when, and what is kept ----


def test_regular_containers_and_sidecars_are_probed_and_nothing_else() -> None:
    probe = k8s.Probe()
    it = pod(
        container("a", readiness_probe=probe),
        container("b", liveness_probe=probe, startup_probe=probe),
        "c",
        init=(container("i", liveness_probe=probe), sidecar("s", startup_probe=probe)),
    )

    assert [(READINESS, "a"), (LIVENESS, "b"), (STARTUP, "b"), (STARTUP, "s")] == [
        (kind, one.name) for kind, one in probes_of(it)
    ]


@pytest.mark.parametrize(
    ("kind", "delay", "ran", "known", "share", "expected"),
    [
        (READINESS, None, 0, 0, 0.5, 0),
        (STARTUP, None, 0, 0, 0.5, 0),
        (LIVENESS, None, 0, 0, 0.5, 20),
        (LIVENESS, None, 15, 60, 0.5, 5),
        *((kind, 5, 0, 0, 0.5, 5) for kind in ProbeKind),
        *((kind, 5, 3, 60, 0.5, 2) for kind in ProbeKind),
        *((kind, 5, 30, 60, 0.5, 0) for kind in ProbeKind),
        *((kind, None, 100, 0, 0.5, 10) for kind in ProbeKind),
        (READINESS, None, 100, 0, 0.99, 19.8),
        (READINESS, None, 100, 4, 0.5, 6),
        (READINESS, None, 100, 30, 0.5, 0),
        (READINESS, 300, 100, 0, 0.5, 200),
    ],
)
def test_what_was_found_running_is_probed_at_its_place_in_the_period_and_what_is_new_at_once_or_after_one(
    kind: ProbeKind, delay: int | None, ran: float, known: float, share: float, expected: float
) -> None:
    probe = k8s.Probe(initial_delay_seconds=delay, period_seconds=20)

    assert pytest.approx(expected) == first_delay(kind, probe, ran, known, share)


@pytest.mark.parametrize(
    ("kind", "delay", "seconds"),
    [(READINESS, None, 0), (LIVENESS, None, 20), (STARTUP, None, 20), *((kind, 7, 7) for kind in ProbeKind)],
)
def test_nothing_counts_against_a_container_in_its_first_period_or_its_initial_delay(
    kind: ProbeKind, delay: int | None, seconds: float
) -> None:
    assert seconds == failures_count_after(kind, k8s.Probe(initial_delay_seconds=delay, period_seconds=20))


def shown(ready: bool = True, started: bool | None = True, id_: str = "containerd://c") -> k8s.ContainerStatus:
    return k8s.ContainerStatus(
        name="a", image="i", image_id="", restart_count=0, ready=ready, started=started, container_id=id_
    )


@pytest.mark.parametrize(
    ("kind", "status", "ran", "expected"),
    [
        (READINESS, shown(), 60, SUCCESS),
        (READINESS, shown(ready=False), 60, None),
        (READINESS, shown(), 10, None),
        (READINESS, shown(id_="containerd://other"), 60, None),
        (READINESS, shown(id_=""), 60, None),
        (READINESS, None, 60, None),
        (STARTUP, shown(ready=False), 60, SUCCESS),
        (STARTUP, shown(started=None), 60, None),
        (STARTUP, shown(started=False), 60, None),
        (LIVENESS, shown(), 60, None),
    ],
)
def test_what_a_status_said_of_this_container_counts_if_it_ran_for_a_while(
    kind: ProbeKind, status: k8s.ContainerStatus | None, ran: float, expected: Verdict | None
) -> None:
    assert expected is kept(kind, status, "c", ran, 0.0)


def test_one_that_is_known_to_have_started_is_not_asked_whether_it_has() -> None:
    assert Track("c", SUCCESS, on_hold=True) == begin(STARTUP, "c", SUCCESS)
