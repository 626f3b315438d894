"""Nurseries that outlive a cancellation: they open, and end, whenever that comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.kit.shielded_nursery import open_shielded_nursery

if TYPE_CHECKING:
    from trio.testing import MockClock


async def _live_and_end(log: list[str]) -> None:
    try:
        await trio.sleep_forever()
    finally:
        log.append("task")


async def test_the_tasks_run_on_while_the_block_ends(autojump_clock: MockClock) -> None:
    log: list[str] = []
    with trio.move_on_after(1.0):
        async with trio.open_nursery() as nursery:
            shielded = await open_shielded_nursery(nursery)
            shielded.nursery.start_soon(_live_and_end, log)
            try:
                await trio.sleep_forever()
            finally:
                log.append("block")
                shielded.cancel()

    assert ["block", "task"] == log


async def test_within_a_cancelled_scope_it_opens_and_ends(autojump_clock: MockClock) -> None:
    log: list[str] = []
    with trio.fail_after(9.0), trio.CancelScope() as scope:
        scope.cancel()
        async with trio.open_nursery() as nursery:
            shielded = await open_shielded_nursery(nursery)
            shielded.nursery.start_soon(_live_and_end, log)
            try:
                await trio.lowlevel.checkpoint()
            finally:
                log.append("block")
                shielded.cancel()

    assert ["block", "task"] == log


async def test_a_drain_waits_for_tasks_that_end_and_cancels_the_others_at_its_deadline(
    autojump_clock: MockClock,
) -> None:
    began, ended = trio.current_time(), []

    async def work(seconds: float) -> None:
        try:
            await trio.sleep(seconds)
        finally:
            ended.append(trio.current_time() - began)

    async with trio.open_nursery() as nursery:
        shielded = await open_shielded_nursery(nursery)
        shielded.nursery.start_soon(work, 2.0)
        shielded.nursery.start_soon(work, 9.0)
        shielded.drain(5.0)

    assert [2.0, 5.0] == pytest.approx(ended)


async def test_a_drain_without_tasks_ends_at_once(autojump_clock: MockClock) -> None:
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        (await open_shielded_nursery(nursery)).drain(5.0)

    assert began == trio.current_time()


async def test_a_task_that_fails_ends_the_block(autojump_clock: MockClock) -> None:
    async def fail() -> None:
        raise OSError("gone")

    with pytest.RaisesGroup(pytest.RaisesGroup(OSError)):
        async with trio.open_nursery() as nursery:
            shielded = await open_shielded_nursery(nursery)
            shielded.nursery.start_soon(fail)
            await trio.sleep_forever()
