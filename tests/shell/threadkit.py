"""A machine on which no thread can be started."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Trio start none, not even one that idles since an earlier test, and say so as Python does."""

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("trio._threads.start_thread_soon", refuse)
