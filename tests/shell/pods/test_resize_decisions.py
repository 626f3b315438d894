"""One resize decided about: whether it still waits, what is noted of it, and what is told, once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from shell.pods.shellkit import Said
from trikubelet.core.admission import Admitted, Rejection
from trikubelet.core.containers import NodeFacts
from trikubelet.core.resize.verdicts import DEFERRED, INFEASIBLE, Pending, Waiting
from trikubelet.model import k8s
from trikubelet.pods.allocations import Allocations
from trikubelet.pods.figures import PodFigures
from trikubelet.pods.resize_decisions import MAKES_ROOM, NOT_YET, ResizeDecisions
from trikubelet.pods.resize_notes import ResizeNotes
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_host import MemoryPodFiles

if TYPE_CHECKING:
    from trikubelet.model.k8s import Pod

ROOM, OTHER = Rejection("OutOfcpu", "no room"), pod("other")


def web(cpu: str, **resources: str) -> Pod:
    """A pod that asks for so much."""
    asked = k8s.ResourceRequirements(requests={"cpu": cpu, **resources})
    return pod("web", container(resources=asked))


class Admitting:
    """Admission that says what a test tells it, and keeps for whom it made room."""

    def __init__(self, says: Admitted | Rejection) -> None:
        self.says = says
        self.ended: list[str] = []

    def evaluate(self, _: Pod) -> Admitted | Rejection:
        """Return what a test set."""
        return self.says

    def make_room(self, _: Pod, admitted: Admitted) -> None:
        """Keep who is ended."""
        self.ended.extend(one.metadata.name for one in admitted.preempts)


class Desk:
    """Where pod "web", which is allocated 1 CPU, asks for other amounts."""

    def __init__(self, says: Admitted | Rejection = ROOM) -> None:
        self.evaluation: Any = Admitting(says)
        self.events, self.figures = Said(), PodFigures()
        self.allocations = Allocations(MemoryPodFiles())
        self.now_seconds = 0.0
        self.notes = ResizeNotes(self.allocations, self.figures, lambda: self.now_seconds)
        self.allocations.admit(web("1"))
        self.decisions = ResizeDecisions(
            evaluation=self.evaluation,
            allocations=self.allocations,
            notes=self.notes,
            facts=NodeFacts("n"),
            events=self.events,
            figures=self.figures,
        )

    def decide(self, asks: Pod) -> bool:
        """True if it still waits."""
        return self.decisions.decide(Waiting(asks, self.allocations.as_allocated(asks)))

    @property
    def pending(self) -> Pending | None:
        """Return the note."""
        return self.notes.pending("uid-web")


def test_what_there_is_room_for_is_allocated_and_told() -> None:
    desk, more = Desk(Admitted()), web("2")
    desk.notes.note_error("uid-web", "of the resize before")

    assert not desk.decide(more)
    assert more is desk.allocations.as_allocated(more)
    assert (None, "") == (desk.pending, desk.notes.facts(more).error)
    assert [("Normal", "ResizeStarted")] == [event[:2] for event in desk.events.events]


def test_what_there_is_no_room_for_waits_and_is_reported_once_in_whatever_words() -> None:
    desk = Desk()

    assert desk.decide(web("2"))
    assert Pending(DEFERRED, "no room", 0) == desk.pending
    desk.evaluation.says = Rejection("OutOfcpu", "less room still")
    assert desk.decide(web("2"))
    assert Pending(DEFERRED, "less room still", 0) == desk.pending
    assert ["ResizeDeferred"] == desk.events.reasons


def test_what_was_not_decided_about_yet_is_reported_although_it_waited() -> None:
    desk = Desk()
    desk.notes.note_pending("uid-web", Pending(DEFERRED, NOT_YET, 0))

    assert desk.decide(web("2"))
    assert ["ResizeDeferred"] == desk.events.reasons


def test_it_waits_for_those_that_are_ended_to_make_room() -> None:
    desk = Desk(Admitted(preempts=(OTHER,), short_of="cpu"))

    assert desk.decide(web("2"))
    assert (["other"], Pending(DEFERRED, MAKES_ROOM, 0)) == (desk.evaluation.ended, desk.pending)


def test_what_will_never_be_had_waits_no_more_and_stays_told() -> None:
    desk = Desk(Admitted())

    assert not desk.decide(web("1", **{"ephemeral-storage": "1Gi"}))
    assert desk.pending is not None
    assert INFEASIBLE == desk.pending.reason
    assert ["ResizeInfeasible"] == desk.events.reasons
    assert {"unresizable_resource": 1} == desk.figures.resizes_infeasible


def test_what_was_taken_back_leaves_no_note() -> None:
    desk = Desk()
    assert desk.decide(web("2"))

    assert not desk.decide(web("1"))
    assert desk.pending is None


def test_a_grant_that_cannot_be_written_down_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Pod) -> None:
        raise OSError("no space left on device")

    desk = Desk(Admitted())
    monkeypatch.setattr(desk.allocations, "allocate", full)

    assert desk.decide(web("2"))
    assert desk.pending is not None
    assert "cannot write the allocation: no space left on device" == desk.pending.message


@pytest.mark.parametrize(
    ("resolution", "asked"),
    [pytest.param("accepted", web("2"), id="granted"), pytest.param("reverted", web("1"), id="taken back")],
)
def test_wait_of_a_deferred_resize_is_measured_once(resolution: str, asked: Pod) -> None:
    desk = Desk()
    assert desk.decide(web("2"))
    desk.now_seconds = 20.0
    assert desk.decide(web("2"))
    desk.now_seconds = 42.0
    desk.evaluation.says = Admitted()

    assert not desk.decide(asked)
    desk.notes.note_ended(asked)
    assert {(resolution, "normal"): (1, 42.0)} == {
        labels: (spread.count, spread.sum) for labels, spread in desk.figures.resizes_deferred.items()
    }


def test_wait_of_a_deferred_resize_ends_with_its_pod() -> None:
    desk = Desk()
    assert desk.decide(web("2"))
    desk.now_seconds = 7.0

    desk.notes.note_ended(web("2"))
    assert {("terminated", "normal"): 7.0} == {
        labels: spread.sum for labels, spread in desk.figures.resizes_deferred.items()
    }


def test_infeasible_resize_is_not_measured_as_deferred() -> None:
    desk = Desk(Admitted())
    assert not desk.decide(web("1", **{"ephemeral-storage": "1Gi"}))

    desk.notes.note_ended(web("1"))
    assert not desk.figures.resizes_deferred
