"""Keeps the records on the disk in step with the sandboxes and containers in memory; ``pods`` calls it.

A sandbox or container is recorded before it counts, or the call fails. An end or removal is a fact whether or not it
can be recorded: a failure is logged, and the next agent does not know of it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from trikubelet.kit.log_rate_limit import LogRateLimit
from trikubelet.model.runtime_errors import RuntimeFailure

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from trikubelet.embedded.disk_records import DiskRecords
    from trikubelet.embedded.records import Container, Sandbox
    from trikubelet.ports import Clock

log = logging.getLogger(__name__)


class Recorder:
    """Owns the times until which failures to record are not logged again. ``containers``: the existing ones."""

    def __init__(self, records: DiskRecords, containers: Mapping[str, Container], clock: Clock) -> None:
        self._records = records
        self._containers = containers
        self._clock = clock
        self._warning = LogRateLimit()

    async def sandbox_made(self, sandbox: Sandbox) -> None:
        """Record a new sandbox. Raises RuntimeFailure."""
        await self._records.keep_sandbox(sandbox.status())

    async def starting(self, container: Container) -> None:
        """Record that a container may run from now on. Raises RuntimeFailure."""
        status = container.status()
        status.started_at = self._clock.now_ns()
        async with container.recording:
            await self._records.keep_container(container.sandbox.id, status)

    async def ended(self, container: Container) -> None:
        """Record how a container ended, unless it was removed meanwhile."""
        try:
            async with container.recording:
                if container.id in self._containers:
                    await self._records.keep_container(container.sandbox.id, container.status())
        except RuntimeFailure as error:
            self._failed(f"The end of container {container.id[:13]} is unknown to the next agent", error)
        finally:
            container.recorded.set()

    async def removed(self, container: Container) -> None:
        """Remove the record of a container."""
        try:
            async with container.recording:
                await self._records.forget_container(container.sandbox.id, container.id)
        except RuntimeFailure as error:
            self._failed(f"Container {container.id[:13]} is gone, and its record stays", error)

    async def sandbox_removed(self, sandbox: Sandbox, containers: Collection[Container]) -> None:
        """Remove the records of a sandbox and of the containers that were in it."""
        for container in containers:
            async with container.recording:  # otherwise an end that is being written would come back after the removal
                pass
        try:
            await self._records.forget_sandbox(sandbox.id)
        except RuntimeFailure as error:
            self._failed(f"Sandbox {sandbox.id[:13]} is gone, and its record stays", error)

    def _failed(self, what: str, error: RuntimeFailure) -> None:
        if self._warning.may_log():
            log.warning("%s: %s", what, error)
