"""Plans the rotation of a container's log: which of its files are removed, renamed and compressed.

    0.log                          being written
    0.log.20261121-070102          rotated; the newest of these is kept uncompressed for its present readers
    0.log.20261120-190233.gz       older, compressed
    0.log.20261120-190233.tmp      being compressed, or left by an interrupted compression

A *part* is the ending after ``0.log.``. The names are upstream's (container_log_manager.go), so log collectors know
them. ``node.log_rotation`` carries out the plan, ``server.log_files`` reads the parts.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

PACKED: Final = ".gz"
UNFINISHED: Final = ".tmp"

_PART: Final = re.compile(r"(\d{8}-\d{6})(\.gz|\.tmp)?", re.ASCII)
_TIME: Final = "%Y%m%d-%H%M%S"
_LAST_YEAR: Final = 9999
_SECOND: Final = timedelta(seconds=1)


FLOOD_SECONDS: Final = 1.0
"""The time between two checks of a log that grows fast. Part names have seconds, so parts cannot be made faster."""
FLOOD_BYTES: Final = 16 * 1024 * 1024
"""The loss of free space within one second that means that something is filling the disk."""
FAST_LOGS_MAX: Final = 16
"""The number of logs that are checked each second, the fastest-growing first; the others are checked with all."""


class RotationRules(Frozen):
    """When logs are rotated. A log of ``size_bytes`` or more is; ``files_max`` includes the one being written and is at
    least 2; ``workers_max`` logs are rotated at the same time. Upstream's names are containerLogMaxSize, …MaxFiles,
    …MaxWorkers and containerLogMonitorInterval, and the defaults are upstream's. ``flood_seconds``: how often the disk,
    and each log that grows fast, is checked in between; 0 for never."""

    size_bytes: int = 10 * 1024 * 1024
    files_max: int = 5
    workers_max: int = 1
    period_seconds: float = 10.0
    flood_seconds: float = 0.0

    @property
    def step_seconds(self) -> float:
        """The seconds from one check, of all logs or of some, to the next."""
        return min(self.flood_seconds or self.period_seconds, self.period_seconds)


class SizeAt(Frozen):
    """A number of bytes, of a log or of free space, and the time at which it was read (Trio's clock)."""

    size_bytes: int
    at: float


class Rotation(Frozen):
    """The steps of a rotation, in this order: ``remove`` these parts, rename the log to ``part``, ``compress``
    these."""

    remove: tuple[str, ...]
    part: str
    compress: tuple[str, ...]


def stem(part: str) -> str:
    """Return a part's name without the ending of a compressed one. Takes paths, too."""
    return part.removesuffix(PACKED)


def is_part(name: str) -> bool:
    """True if this ending, after a log's own name, is part of the log, finished or not. Other files belong to other
    programs."""
    return _time_of(name) is not None


def is_finished(name: str) -> bool:
    """True if it is part of the log and can be read."""
    return is_part(name) and not name.endswith(UNFINISHED)


def growth_per_second(before: SizeAt | None, now: SizeAt, rules: RotationRules) -> float:
    """Return the bytes by which a log grows in a second. A log that shrank was rotated meanwhile; one that is new was
    written since all logs were last checked."""
    if before is None:
        return now.size_bytes / rules.period_seconds
    grown = now.size_bytes - before.size_bytes if now.size_bytes >= before.size_bytes else now.size_bytes
    return grown / max(now.at - before.at, rules.step_seconds / 2)


def fast_logs(growth: Mapping[str, float], rules: RotationRules) -> frozenset[str]:
    """Return the logs that would far exceed their limit before all logs are checked again, at most
    ``FAST_LOGS_MAX``."""
    fast = [id_ for id_, per_second in growth.items() if per_second * rules.period_seconds >= rules.size_bytes]
    return frozenset(sorted(fast, key=lambda id_: -growth[id_])[:FAST_LOGS_MAX])


def is_filling(before: SizeAt | None, now: SizeAt) -> bool:
    """True if something takes the free space so fast that it may be a log."""
    return before is not None and before.size_bytes - now.size_bytes >= FLOOD_BYTES * (now.at - before.at)


def beyond_room(plain: Mapping[str, int], log_bytes: int, rules: RotationRules) -> frozenset[str]:
    """Return the parts to remove although ``files_max`` would allow them: the oldest of the ``plain`` ones, by their
    sizes, that do not fit into twice the size of all files of a log, next to the ``log_bytes`` of the newest. Otherwise
    a log that is written faster than it can be compressed would fill the disk."""
    room, gone = 2 * rules.size_bytes * rules.files_max - log_bytes, set[str]()
    for part in sorted(plain, reverse=True):
        room -= plain[part]
        if room < 0:
            gone.add(part)
    return frozenset(gone)


def plan(
    found: Collection[str], files_max: int, now_ns: int, busy: str = "", gone: Collection[str] = frozenset()
) -> Rotation:
    """Plan the rotation of the parts ``found`` and of the file being written, so that no more than ``files_max`` files
    are left, including the new one. The oldest are removed, and those of ``gone``, and leftovers of interrupted
    compressions. ``busy``: the part that a thread is compressing, if any. All its files count as that one part, which
    may be removed like others, in either form; its unfinished file belongs to the thread."""
    forms = {busy, f"{busy}{PACKED}", f"{busy}{UNFINISHED}"} if busy else set()
    parts = [name for name in found if is_part(name) and name not in forms]
    if busy:
        parts.append(busy)
    finished = sorted(name for name in parts if name not in _left_over(parts))
    # Two more will follow: the file being written becomes a part, and the runtime opens a new one.
    oldest = finished[: max(0, len(finished) - (files_max - 2))]
    excess = [name for name in finished if name in oldest or name in gone]
    kept = [name for name in finished if name not in excess]
    return Rotation(
        # Uncompressed first: a thread that finds it missing removes the compressed one itself.
        remove=(*sorted(_left_over(parts)), *excess, *(f"{name}{PACKED}" for name in excess if name == busy)),
        part=_name_after(parts, now_ns),
        compress=tuple(name for name in kept if not name.endswith(PACKED) and name != busy),
    )


def _left_over(parts: Collection[str]) -> frozenset[str]:
    """Return the leftovers of an interrupted rotation: a file gets the ending of a compressed one when it is
    complete."""
    return frozenset(name for name in parts if name.endswith(UNFINISHED) or f"{name}{PACKED}" in parts)


def _name_after(parts: Collection[str], now_ns: int) -> str:
    """Return the present time in UTC as the new part's name. If a clock was set back, it is the second after the newest
    part, because the order of the names is that of the lines. At the last second that a name can express, it is the
    first free one from now on: out of order, but unique."""
    now = datetime.fromtimestamp(now_ns // 10**9, UTC)
    times = {time for name in parts if (time := _time_of(name)) is not None}
    after = max([now, *(time + _SECOND for time in times)])
    if after.year == _LAST_YEAR:
        after = now
        while after in times:
            after += _SECOND
    return after.strftime(_TIME)


def _time_of(name: str) -> datetime | None:
    """Return when a part was rotated; None for other names."""
    match = _PART.fullmatch(name)
    if match is None:
        return None
    try:
        time = datetime.strptime(match[1], _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None
    return None if time.year == _LAST_YEAR else time
