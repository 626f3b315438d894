"""A command that is interrupted ends in order, and says that it was."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.cli import interruptible
from trikubelet.cli.failed import CommandFailed

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.default_int_handler is signal.signal(signal.SIGINT, before)


async def add(one: int, other: int) -> int:
    await trio.lowlevel.checkpoint()
    return one + other


def test_it_returns_and_raises_what_the_work_does() -> None:
    async def fail() -> None:
        raise CommandFailed("no")

    assert 3 == interruptible.run(add, 1, 2)
    with pytest.raises(CommandFailed, match="no"):
        interruptible.run(fail)


def test_what_is_done_goes_on_to_its_next_checkpoint_and_tidies_up() -> None:
    done = []

    async def work() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
            done.append("the step")
            await trio.sleep_forever()
        finally:
            done.append("tidied")

    with pytest.raises(KeyboardInterrupt):
        interruptible.run(work)
    assert ["the step", "tidied"] == done


@pytest.mark.parametrize("consequence", [CommandFailed("it went away"), OSError(9, "Bad file descriptor")])
def test_what_fails_because_of_it_hides_nothing(consequence: Exception) -> None:
    async def work() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
            await trio.sleep_forever()
        finally:
            raise ExceptionGroup("side by side", [consequence])

    with pytest.raises(KeyboardInterrupt):
        interruptible.run(work)


def test_a_bug_is_a_bug_all_the_same() -> None:
    async def work() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
            await trio.sleep_forever()
        finally:
            raise TypeError("a bug")

    with pytest.raises(TypeError, match="a bug"):
        interruptible.run(work)


def test_second_interrupt_ends_a_command_that_does_not_end() -> None:
    reached = []

    async def work() -> None:
        signal.raise_signal(signal.SIGINT)
        reached.append("the first")
        signal.raise_signal(signal.SIGINT)
        reached.append("the second")

    with pytest.raises(KeyboardInterrupt):
        interruptible.run(work)
    assert ["the first"] == reached


def test_where_it_is_ignored_it_stays_so() -> None:
    async def work() -> int:
        signal.raise_signal(signal.SIGINT)
        return await add(1, 2)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert 3 == interruptible.run(work)
    assert signal.SIG_IGN is signal.signal(signal.SIGINT, signal.default_int_handler)
