"""The tasks of a run, as text."""

from __future__ import annotations

import pytest
import trio

from trikubelet.kit import task_tree
from trikubelet.kit.every import Every


async def patient() -> None:
    async for _ in Every(1000):
        pass


async def test_task_is_shown_below_its_parent_with_its_wait() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(patient)
        nursery.start_soon(trio.sleep_forever)
        await trio.testing.wait_all_tasks_blocked()
        lines = task_tree.task_tree().splitlines()
        nursery.cancel_scope.cancel()

    (mine,) = [line for line in lines if ".patient: every.py:" in line]
    (other,) = [line for line in lines if "sleep_forever: " in line]
    (own,) = [line for line in lines if "test_task_is_shown_below_its_parent" in line]
    depths = [len(line) - len(line.lstrip()) for line in (own, mine, other)]
    assert [depths[0], depths[0] + 2, depths[0] + 2] == depths


async def test_a_tree_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_tree, "TASKS_MAX", 2)
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(trio.sleep_forever)
        lines = task_tree.task_tree().splitlines()
        nursery.cancel_scope.cancel()

    assert (3, True) == (len(lines), lines[-1].endswith(" more"))
