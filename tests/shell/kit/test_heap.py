"""What is looked through for garbage, and when."""

from __future__ import annotations

import gc
import itertools
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


MIB = 1 << 20


class Process:
    """A process of a resident size, of which a trim frees some. ``trims``: when there was one, in seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.resident = 60 * MIB
        self.free = 0
        self.trims: list[float] = []
        monkeypatch.setattr(heap, "resident_bytes", lambda: self.resident)
        monkeypatch.setattr(heap, "give_back", self._give_back)
        monkeypatch.setattr(gc, "get_count", lambda: (0, 0, 0))

    def _give_back(self) -> None:
        self.trims.append(trio.current_time())
        self.resident -= self.free
        self.free = 0


async def test_a_process_that_has_grown_gives_free_pages_back_within_a_minute(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    process = Process(monkeypatch)
    nursery.start_soon(heap.look_after_heap)
    await trio.sleep(600)
    assert [] == process.trims

    process.resident += 27 * MIB
    process.free = 20 * MIB
    await trio.sleep(61)
    assert 1 == len(process.trims)

    await trio.sleep(3600)
    assert 1 == len(process.trims)  # the rest is less than what counts as grown


async def test_a_process_is_trimmed_more_rarely_while_its_memory_is_in_use(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    process = Process(monkeypatch)
    nursery.start_soon(heap.look_after_heap)
    await trio.sleep(90)
    process.resident += 100 * MIB
    await trio.sleep(3600 * 4)

    gaps = [later - earlier for earlier, later in itertools.pairwise(process.trims)]
    assert [120, 240, 480, 960, 960] == gaps[:5]
    process.free = 90 * MIB
    await trio.sleep(heap.TRIM_SECONDS_MAX + 1)
    assert 70 * MIB == process.resident


def test_pages_are_given_back_to_the_kernel_of_this_machine() -> None:
    assert heap.resident_bytes() > MIB
    heap.give_back()
    assert heap.resident_bytes() > MIB
