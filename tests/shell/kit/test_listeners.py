"""Listeners: all are told in order, and a bug in one stays its own."""

from __future__ import annotations

import logging

import pytest

from trikubelet.kit.barrier import InvariantBroken
from trikubelet.kit.listeners import Listeners


def test_all_are_notified_in_the_order_in_which_they_came() -> None:
    told: list[tuple[str, str, int]] = []
    news: Listeners[str, int] = Listeners("numbers")
    news.add(lambda name, number: told.append(("first", name, number)))
    news.add(lambda name, number: told.append(("second", name, number)))

    news.notify("a", 1)
    news.notify("b", 2)

    assert [("first", "a", 1), ("second", "a", 1), ("first", "b", 2), ("second", "b", 2)] == told


def test_news_without_listeners_are_dropped() -> None:
    Listeners[()]("nothing").notify()


async def test_a_bug_in_one_is_said_once_by_its_name_and_the_others_are_told(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    def clumsy(_: str) -> None:
        raise KeyError("a bug")

    news: Listeners[str] = Listeners("a pod's new status")
    news.add(clumsy)
    news.add(told.append)
    with caplog.at_level(logging.ERROR):
        news.notify("a")
        news.notify("b")

    assert ["a", "b"] == told
    (record,) = caplog.records
    assert record.getMessage().endswith(
        "clumsy: a bug when notified of a pod's new status; the other listeners were notified"
    )
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], KeyError)


def test_a_broken_invariant_is_everybodys() -> None:
    def broken() -> None:
        raise InvariantBroken("two of one kind")

    news: Listeners[()] = Listeners("anything")
    news.add(broken)

    with pytest.raises(InvariantBroken):
        news.notify()
