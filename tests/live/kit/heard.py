"""A process that says one thing per line, heard by a thread until the test is done with it.

What `ctr events` and a watch of kubectl have in common: somebody else's record of what happened, kept from a moment on,
on which a test can wait. A subclass says what a line means.
"""

from __future__ import annotations

import subprocess
import threading
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Heard(ABC):
    """Owns the process and the thread that hears it, while it is entered as a context manager. ``news`` is the lock of
    all that was heard, and told of every line."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._ended = False
        self.news = threading.Condition()

    @abstractmethod
    def take(self, line: str) -> None:
        """Keep what a line says. Called with the lock held."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
        )
        self._reader = threading.Thread(target=self._read, name=self._command[0], daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(timeout=60)
        if self._process.stdout is not None:
            self._process.stdout.close()

    @property
    def ended(self) -> bool:
        """Whether whoever was listened to ended it."""
        return self._ended

    def why_not(self, satisfied: Callable[[], bool], seconds: float) -> str:
        """Waits until ``satisfied``, asked again after every line, and returns nothing; or why that did not come."""
        deadline = time.monotonic() + seconds
        with self.news:
            while not satisfied():
                left = deadline - time.monotonic()
                if self._ended:
                    return "the stream ended"
                if left <= 0:
                    return f"not after {seconds:g} s"
                self.news.wait(left)
        return ""

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith("\n"):
                break  # it was killed in the middle of it
            with self.news:
                self.take(line)
                self.news.notify_all()
        with self.news:
            self._ended = True
            self.news.notify_all()
