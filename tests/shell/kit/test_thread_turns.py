"""Turns of threads: so many at a time, none is passed over, and who hangs keeps nobody waiting for ever."""

from __future__ import annotations

import threading

from trikubelet.kit.thread_turns import ThreadTurns

WAIT = 60  # longer than anything here takes; a failure, not a pause


def waiting(turns: ThreadTurns, count: int) -> None:
    """Until so many wait for a turn."""
    with turns._changed:
        assert turns._changed.wait_for(lambda: len(turns._waiting) == count, WAIT)


class Walk(threading.Thread):
    """Takes a turn, notes its name, and again after each time it passes the turn on."""

    def __init__(self, turns: ThreadTurns, name: str, said: list[str], slices: int = 2) -> None:
        super().__init__(name=name, daemon=True)
        self._turns, self._said, self._slices = turns, said, slices

    def run(self) -> None:
        with self._turns.taken(self):
            for number in range(self._slices):
                if number:
                    self._turns.pass_on(self)
                self._said.append(self.name)


def test_turns_go_round() -> None:
    turns, said = ThreadTurns(1, hung_seconds=WAIT), list[str]()
    with turns.taken("first"):
        walks = [Walk(turns, name, said) for name in "abc"]
        for number, walk in enumerate(walks, 1):
            walk.start()
            waiting(turns, number)
        assert [] == said
    for walk in walks:
        walk.join(WAIT)

    assert list("abcabc") == said
    assert "<ThreadTurns: 0 of 1 taken, 0 wait>" == repr(turns)


def test_single_thread_goes_on() -> None:
    turns = ThreadTurns(1, hung_seconds=WAIT)
    with turns.taken("one"):
        turns.pass_on("one")
        assert "<ThreadTurns: 1 of 1 taken, 0 wait>" == repr(turns)


def test_hanging_thread_loses_its_turn_and_waits_for_the_next() -> None:
    turns, said = ThreadTurns(1, hung_seconds=0.0), list[str]()
    with turns.taken("hung"):
        walk = Walk(turns, "a", said, slices=1)
        walk.start()
        walk.join(WAIT)
        assert ["a"] == said
        turns.pass_on("hung")
        assert "<ThreadTurns: 1 of 1 taken, 0 wait>" == repr(turns)


def test_lost_turn_affects_no_other_thread() -> None:
    turns = ThreadTurns(1, hung_seconds=0.0)
    with turns.taken("first"):
        with turns.taken("second"):
            assert ["second"] == list(turns._since)
        assert [] == list(turns._since)


def test_two_that_are_free_at_once_are_both_taken() -> None:
    turns, both = ThreadTurns(2, hung_seconds=WAIT), threading.Barrier(2)

    class Meeting(threading.Thread):
        def run(self) -> None:
            with turns.taken(self):
                both.wait(5)

    walks = [Meeting(daemon=True) for _ in range(2)]
    with turns.taken("first"), turns.taken("second"):
        for number, walk in enumerate(walks, 1):
            walk.start()
            waiting(turns, number)
        with turns._changed:
            turns._since.clear()
            turns._changed.notify(1)  # the first in line; it has to tell the next
        for walk in walks:
            walk.join(WAIT)
    assert not both.broken
