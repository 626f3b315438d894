"""A machine on which no thread can be started, and threads that are none, for virtual time; and work that hangs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

import trio

from trikubelet.kit.thread_shares import ThreadShares

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

T = TypeVar("T")


class Hanging:
    """Work that says when it began and ends when it is let go."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.let_go = threading.Event()
        self.ended = threading.Event()

    def __call__(self) -> str:
        self.began.set()
        self.let_go.wait()
        self.ended.set()
        return "done"


class AtOnce(ThreadShares):
    """Does all work where it is asked for: a clock that jumps would jump while a thread works. ``hangs``: whether it
    does not, from now on; ``waiting`` counts what was begun since."""

    def __init__(self) -> None:
        super().__init__("none")
        self.hangs = False
        self.waiting = 0

    async def run(self, owner: str, work: Callable[[], T]) -> T:
        await trio.lowlevel.checkpoint()
        if self.hangs:
            self.waiting += 1
            await trio.sleep_forever()
        return work()

    def run_aside(self, owner: str, work: Callable[[], object]) -> None:
        work()


def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Trio start none, not even one that idles since an earlier test, and say so as Python does."""

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    for place in ("trio._threads", "trio.lowlevel"):
        monkeypatch.setattr(f"{place}.start_thread_soon", refuse)
