"""The units of work of ``Disks``, their results, and the counting of one in a thread."""

from __future__ import annotations

import math
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import field

from trikubelet.kit.barrier import Barrier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.kit.thread_turns import ThreadTurns
    from trikubelet.model.usage import FsUsage
    from trikubelet.ports import Gauges


class Piece(NamedTuple):
    """One unit of measuring: directories by their content, ``logs/CONTAINER`` or ``volumes/NAME``."""

    key: str
    paths: Mapping[str, str]
    is_remote: bool


class Record(msgspec.Struct):
    """The result of a piece. ``found``: its last complete measurement, None if it never was, and ``at``: the time from
    which that counts (Trio's clock); ``is_abnormal``: reported by a volume's driver; ``has_fault``: measuring it met a
    bug; ``so_far``: during the first measurement, bytes and inodes counted, written by the counting thread and so
    replaced as a whole."""

    is_busy: bool = False
    at: float = -math.inf
    found: Mapping[str, FsUsage] | None = None
    is_abnormal: bool | None = None
    has_fault: bool = False
    so_far: Mapping[str, tuple[int, int]] = field(default_factory=dict)


class Count:
    """One thread's count of one piece. It writes its progress into the record, and takes turns with others."""

    def __init__(self, record: Record, turns: ThreadTurns) -> None:
        self._record = record
        self._turns = turns

    def run(self, gauges: Gauges, paths: Mapping[str, str]) -> Mapping[str, FsUsage] | Exception:
        """Return the usage of every existing directory, or the bug that they provoked."""
        found: dict[str, FsUsage] = {}
        with Barrier(lambda _: None) as barrier, self._turns.taken(self):  # logged by the caller, outside of the thread
            for name, path in paths.items():
                with suppress(OSError):  # a container without logs, a volume that has just gone
                    found[name] = one = gauges.directory(path, partial(self._counted, name))
                    self._note(name, one.used_bytes or 0, one.inodes_used or 0)
        return found if barrier.fault is None else barrier.fault

    def _counted(self, name: str, used_bytes: int, inodes: int) -> None:
        self._note(name, used_bytes, inodes)
        self._turns.pass_on(self)

    def _note(self, name: str, used_bytes: int, inodes: int) -> None:
        self._record.so_far = {**self._record.so_far, name: (used_bytes, inodes)}


def size(gauges: Gauges, paths: Mapping[str, str]) -> Mapping[str, FsUsage] | Exception:
    """Return the usage of every existing directory, or the bug that they provoked."""
    found: dict[str, FsUsage] = {}
    with Barrier(lambda _: None) as barrier:  # logged by the caller, outside of the thread
        for name, path in paths.items():
            with suppress(OSError):  # a volume that has just gone
                found[name] = gauges.directory(path)
    return found if barrier.fault is None else barrier.fault
