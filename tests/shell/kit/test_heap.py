"""What is looked through for garbage, and when."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.kit import heap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trio.testing import MockClock


class Ring:
    """Holds itself."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def _thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("_thawed")
def test_a_cycle_set_aside_while_in_use_is_found_when_everything_is_looked_through() -> None:
    ring = Ring()
    seen = weakref.ref(ring)
    heap.look_through(everything=False)
    del ring
    heap.look_through(everything=False)
    assert seen() is not None

    heap.look_through(everything=True)
    assert seen() is None


@pytest.mark.usefixtures("_thawed")
def test_a_cycle_that_came_since_is_found_at_once_and_what_is_in_use_is_set_aside() -> None:
    heap.look_through(everything=True)
    kept = Ring()
    seen = weakref.ref(Ring())
    heap.look_through(everything=False)

    assert seen() is None
    assert all(one is not kept for one in gc.get_objects())


@pytest.mark.parametrize(
    ("expected", "count"), [([True], 0), ([False] * 3600 + [True], heap.NEW_MIN)], ids=["a quiet node", "a busy one"]
)
async def test_what_is_new_is_looked_through_while_it_is_much_and_everything_once_an_hour(
    expected: list[bool], count: int, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[bool] = []
    monkeypatch.setattr(heap, "look_through", lambda *, everything: looks.append(everything))
    monkeypatch.setattr(gc, "get_count", lambda: (0, 0, count))
    with trio.move_on_after(heap.WHOLE_PERIOD_SECONDS + heap.PERIOD_SECONDS / 2):
        await heap.look_after_heap()

    assert expected == looks
