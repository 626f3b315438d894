"""Rotates the logs of containers, so that one that writes without end does not fill the disk.

    every 10 s: each running container ───┬► its log is large, or gone ─► wait for a slot:
    every second: those that write much,  │
    all if the disk is being filled ──────┘
        remove the excess ─► rename the log ─► the runtime opens a new one ─► compress earlier parts,
                                    ▲                    │ fails                outside the slot
                                    └── rename it back ◄─┘

The running containers and the paths of their logs are PLEG's last observation, so a pass does not call the runtime.
``core.log_rotation`` plans the changes of files. A missing log was renamed by a process that ended before the new one
was opened, or by a user: the runtime is told to reopen it. Renaming comes first and compressing last, so that even a
disk that is too full for compressing keeps to its number of files.
"""

from __future__ import annotations

import errno
import logging
import os
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core import log_rotation
from trikubelet.core.log_rotation import SizeAt, fast_logs, growth_per_second, is_filling
from trikubelet.kit.every import Every
from trikubelet.kit.failure_log import FailureLog
from trikubelet.kit.fault_barriers import FaultBarriers
from trikubelet.kit.settle import settled
from trikubelet.model.runtime_errors import RuntimeCallError, RuntimeUnavailable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from trikubelet.core.log_rotation import RotationRules
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.runtime import ContainerStatus, PodObservation
    from trikubelet.ports import Clock, ContainerLogs, Runtime

log = logging.getLogger(__name__)

PUT_BACK_SHARE: Final = 0.2
"""The share of the time for settling a rotation that renaming the log back may take: a stopping agent waits for
both."""
_LOOKING: Final = "see how long the logs of containers are"


class LogRotation:
    """Owns which containers' logs are being rotated, the size of each log and which grow fast, whose parts are being
    compressed, and which could not be rotated the last time. No other part waits for it: a log that cannot be rotated
    is reported once, and retried at the next check. So is one that triggers a bug."""

    def __init__(
        self,
        runtime: Runtime,
        observed: Iterable[PodObservation],
        logs: ContainerLogs,
        clock: Clock,
        rules: RotationRules,
        bounds: Bounds,
    ) -> None:
        """``observed``: yields all pods as last observed, each time it is iterated."""
        self._runtime = runtime
        self._observed = observed
        self._logs = logs
        self._clock = clock
        self._rules = rules
        self._bounds = bounds
        self._turns = trio.CapacityLimiter(rules.workers_max)
        self._under_way: set[str] = set()
        self._compressing: dict[str, str] = {}
        self._failed: dict[str, bool] = {}
        self._seen: dict[str, SizeAt] = {}
        self._fast: frozenset[str] = frozenset()
        self._free: SizeAt | None = None
        self._failure_log = FailureLog()
        self._barriers = FaultBarriers(log, "%s: a bug in rotating it; it is tried again at the next look")

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Rotate until cancelled."""
        async with trio.open_nursery() as nursery:
            task_status.started()
            all_due = trio.current_time()
            async for now in Every(self._rules.step_seconds):
                if now >= all_due or await self._is_filling():
                    all_due = now + self._rules.period_seconds - self._rules.step_seconds / 2
                    await self._look(nursery)
                elif self._fast:
                    await self._look(nursery, self._fast)

    async def _is_filling(self) -> bool:
        """True if something fills the disk of the logs. If the disk does not answer, all logs are checked soon."""
        try:
            free = SizeAt(await self._logs.free_bytes(), trio.current_time())
        except OSError:
            return False
        before, self._free = self._free, free
        return is_filling(before, free)

    async def _look(self, nursery: trio.Nursery, only: Collection[str] = ()) -> None:
        """Begin with each log that is due and not under way, of all containers or of some: at most as many tasks wait
        for a slot as containers run."""
        running: list[tuple[PodObservation, ContainerStatus]] = []
        for pod in self._observed:
            await trio.lowlevel.checkpoint()
            running += [(pod, container) for container in pod.running]
        idle = [
            (pod, container)
            for pod, container in running
            if container.id not in self._under_way and (not only or container.id in only)
        ]
        growth: dict[str, float] = {}
        for (pod, container), size in zip(idle, await self._sizes(idle), strict=False):
            await trio.lowlevel.checkpoint()
            if isinstance(size, int):
                seen, before = SizeAt(size, trio.current_time()), self._seen.get(container.id)
                growth[container.id] = growth_per_second(before, seen, self._rules)
                self._seen[container.id] = seen
            with self._barriers.of(f"The log of {_named(pod, container)}"):
                if self._is_due(pod, container, size):
                    self._under_way.add(container.id)
                    nursery.start_soon(self._in_turn, pod, container)
        ids = {container.id for _, container in running}
        self._failed = {id_: is_logged for id_, is_logged in self._failed.items() if id_ in ids}
        if self._rules.flood_seconds:
            self._seen = {id_: seen for id_, seen in self._seen.items() if id_ in ids}
            # A log whose rotation is under way was not checked now, and stays in the set.
            self._fast = fast_logs(growth, self._rules) | (self._fast & self._under_way)

    async def _sizes(self, of: Sequence[tuple[PodObservation, ContainerStatus]]) -> Sequence[int | OSError | None]:
        """Return the size of each log; empty if the disk does not answer, which is logged."""
        with self._barriers.of("All logs"):
            try:
                sizes = await self._logs.sizes([container.log_path for _, container in of])
            except OSError as error:
                if self._failure_log.may_log(_LOOKING):
                    log.warning("Cannot %s, will try again: %s", _LOOKING, error)
            else:
                self._failure_log.works_again(_LOOKING)
                return sizes
        return ()

    def _is_due(self, pod: PodObservation, container: ContainerStatus, size: int | OSError | None) -> bool:
        if isinstance(size, OSError):
            self._log_failure(pod, container, size)
            return False
        return size is None or size >= self._rules.size_bytes  # an empty path has size 0: it has no log

    async def _in_turn(self, pod: PodObservation, container: ContainerStatus) -> None:
        with self._barriers.of(f"The log of {_named(pod, container)}"):
            try:
                plain = await self._rotate(container)
                if container.id in self._compressing:
                    return  # the next rotation finds these parts again
                await self._compress(container, plain)
                self._failed.pop(container.id, None)
            except (OSError, RuntimeCallError, trio.TooSlowError) as error:
                self._log_failure(pod, container, error)

    async def _rotate(self, container: ContainerStatus) -> Sequence[str]:
        try:
            async with self._turns:
                return await self._keep_small(container)
        finally:
            self._under_way.discard(container.id)

    async def _compress(self, container: ContainerStatus, plain: Sequence[str]) -> None:
        """Compress these parts. Only the next compression waits for this; rotations of the log go on."""
        try:
            for part in plain:
                self._compressing[container.id] = part
                await self._logs.compress(container.log_path, part)
        finally:
            self._compressing.pop(container.id, None)

    async def _keep_small(self, container: ContainerStatus) -> Sequence[str]:
        """Rotate one container's log, in its state when its turn comes; return the parts to compress afterwards."""
        path = container.log_path
        size = await self._size(path)
        if size is None:
            size = await self._reopened(container)
        if size < self._rules.size_bytes:
            return ()
        parts = await self._logs.parts(path)
        busy = self._compressing.get(container.id, "")  # read now, because the thread's unfinished file must stay
        gone = log_rotation.beyond_room(await self._plain(path, parts), size, self._rules)
        rotation = log_rotation.plan(parts, self._rules.files_max, self._clock.now_ns(), busy, gone)
        for part in rotation.remove:
            await self._logs.remove(path, part)
        async with settled(self._bounds.settle_seconds_max * (1 - PUT_BACK_SHARE)):
            await self._start_over(container, rotation.part)
        log.debug("Rotated %s to %s", path, rotation.part)
        return rotation.compress

    async def _size(self, path: str) -> int | None:
        """Return the size; None if the log is missing. Raises OSError."""
        [size] = await self._logs.sizes([path])
        if isinstance(size, OSError):
            raise size
        return size

    async def _plain(self, path: str, parts: Collection[str]) -> Mapping[str, int]:
        """Return the sizes of the uncompressed parts. Raises OSError."""
        plain = [part for part in parts if log_rotation.stem(part) == part and log_rotation.is_finished(part)]
        sizes = await self._logs.sizes([f"{path}.{part}" for part in plain]) if plain else ()
        return {part: size for part, size in zip(plain, sizes, strict=True) if isinstance(size, int)}

    async def _reopened(self, container: ContainerStatus) -> int:
        """Have the log reopened, because the runtime writes into a file without a name; return the new one's size."""
        await self._reopen(container)
        size = await self._size(container.log_path)
        if size is None:
            message = "missing, also after the runtime was told to reopen it"
            raise FileNotFoundError(errno.ENOENT, message, container.log_path)
        return size

    async def _start_over(self, container: ContainerStatus, part: str) -> None:
        """Rename the log and have a new one opened; or leave all as it was. If a disk that hangs renames it later, the
        next check finds it missing and has a new one opened."""
        await self._logs.set_aside(container.log_path, part)
        try:
            await self._reopen(container)
        except BaseException:
            await self._put_back(container.log_path, part)
            raise

    async def _put_back(self, path: str, part: str) -> None:
        """Rename the part back, also when cancelled, in the rest of the time for settling."""
        try:
            with trio.fail_after(self._bounds.settle_seconds_max * PUT_BACK_SHARE, shield=True):
                await self._logs.put_back(path, part)
        except (OSError, trio.TooSlowError) as error:
            log.warning("The log %s stays %s: %s", path, part, str(error) or "the disk does not answer")

    async def _reopen(self, container: ContainerStatus) -> None:
        with trio.fail_after(self._bounds.runtime_call_seconds_max):
            await self._runtime.reopen_log(container.id)

    def _log_failure(self, pod: PodObservation, container: ContainerStatus, error: Exception) -> None:
        """Log a failure once, until it works. A runtime's error is reported when it occurs a second time: a container
        that has just ended cannot have a new log, and PLEG will have noticed its end by then."""
        is_new = False
        if not isinstance(error, RuntimeUnavailable):  # that is logged elsewhere
            before = self._failed.get(container.id)
            is_new = not before and (before is not None or isinstance(error, OSError))
            self._failed[container.id] = is_new or bool(before)
        log.log(
            logging.WARNING if is_new else logging.DEBUG,
            "Cannot rotate the log of %s, will try again: %s (%s)",
            _named(pod, container),
            str(error) or "the runtime gave no answer in time",
            os.path.basename(container.log_path),
        )


def _named(pod: PodObservation, container: ContainerStatus) -> str:
    return f"container {container.name} of pod {pod.namespace}/{pod.name}"
