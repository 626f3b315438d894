"""The devices that containers hold: ensured before a container is made, recorded on disk, and released with the pod.

    ensure(pod) ─► for each need: decide ─┬─ met ──────────────────────────────────────────────┐
                        ▲                 ├─ refused ─► why                                    │
          changed since └── advice ◄──────┴─ open ─► reserved ─► Allocate ─► the answer kept ──┴─► written ─► met

A need that is met is not asked for again, so admission and each start of a container can call ``ensure``, also in a
later run of the agent. Devices are reserved before the plugin is asked: without that two pods that are admitted side by
side could be given the same ones. The file is written before ``ensure`` returns, so no container has devices that
a later run of the agent does not know.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from trikubelet.core.devices import checkpoint
from trikubelet.core.devices.choice import Open, chosen
from trikubelet.core.devices.decision import Awaited, Met, Refused, decide, released, without_answers
from trikubelet.core.devices.needs import needs, reusable
from trikubelet.kit.disk import on_disk
from trikubelet.kit.plain_file import read_plain
from trikubelet.kit.private_file import write_privately
from trikubelet.model.devices import Held
from trikubelet.model.plugins import PluginFailed
from trikubelet.plugins.asking import within

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from trikubelet.core.devices.checkpoint import Checkpoint
    from trikubelet.core.devices.decision import Answer, Decision
    from trikubelet.core.devices.needs import Need
    from trikubelet.devices.plugins import Connected, DevicePlugins
    from trikubelet.kit.threads import ThreadPool
    from trikubelet.model.devices import Holder, Holdings
    from trikubelet.model.k8s import Pod

log = logging.getLogger(__name__)

Result = TypeVar("Result")

FILE: Final = "kubelet_internal_checkpoint"
COPY: Final = f"{FILE}.copy"
"""A copy, for a file that is damaged. A file that was removed was removed on purpose, so its copy does not count."""
FILE_BYTES_MAX: Final = 64 * 2**20
CALL_SECONDS_MAX: Final = 120.0
"""For a plugin's advice and for its allocation. Upstream waits without end, and its admission of all pods with it."""


class DeviceHoldings:
    """Owns which container holds which devices, by which plugin's answer, and the file in which the first is
    recorded."""

    def __init__(self, directory: Path, plugins: DevicePlugins, threads: ThreadPool, *, booted_ns: int = 0) -> None:
        """``booted_ns``: when the machine started, in nanoseconds since the epoch."""
        self.had_file = False
        """True if an earlier run had recorded devices."""
        self._path = directory / FILE
        self._booted_ns = booted_ns
        self._answered: dict[Holder, Connected] = {}
        self._plugins = plugins
        self._threads = threads
        self._held: Holdings = {}
        self._written = self._held
        self._recorded: frozenset[str] = frozenset()
        self._writing = trio.Lock()

    async def load(self) -> None:
        """Read the file of an earlier run. A damaged one is reported and kept beside the new one; then its copy counts.
        Answers from before the machine booted do not count: their paths may name other hardware now."""
        try:
            found, written_ns = await self._read(self._path)
            self._written = found.holdings
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            aside = self._path.with_name(f"{FILE}.damaged")
            log.warning("Cannot read %s, its copy is read: %s (kept as %s)", FILE, error, aside)
            with suppress(OSError):
                await self._on_disk(partial(self._path.replace, aside))
            found, written_ns = await self._read_copy()
        self.had_file = True
        self._held = found.holdings if written_ns >= self._booted_ns else without_answers(found.holdings)
        self._recorded = found.resources
        self._plugins.restore(found.resources)

    async def _read_copy(self) -> tuple[Checkpoint, int]:
        copy = self._path.with_name(COPY)
        try:
            return await self._read(copy)
        except (OSError, ValueError) as error:
            log.warning("Cannot read %s either, the devices of running pods are unknown: %s", copy, error)
            return checkpoint.Checkpoint({}, frozenset()), 0

    async def _read(self, path: Path) -> tuple[Checkpoint, int]:
        """Return the content of a file, and when it was written, in nanoseconds since the epoch. Raises OSError and
        ValueError."""
        content, written_ns = await self._on_disk(partial(_content, path))
        return checkpoint.read(content), written_ns

    def of(self, pod: Pod, container: str) -> dict[str, Held]:
        """Return what the container holds, by resource."""
        return {
            holder.resource: held
            for holder, held in sorted(self._held.items(), key=lambda item: item[0])
            if holder.pod_uid == pod.metadata.uid and holder.container == container
        }

    @property
    def resources(self) -> frozenset[str]:
        """The resources that plugins have brought, or that a container holds still."""
        return self._plugins.resources | {holder.resource for holder in self._held}

    @property
    def held(self) -> Mapping[Holder, Held]:
        """All holdings at this moment."""
        return self._held

    async def ensure(
        self, pod: Pod, *, only: str | None = None, keeps: bool = False, awaited: Mapping[str, float] | None = None
    ) -> Answer:
        """Give the pod's containers the devices that they need and do not hold yet. ``only``: the name of the one that
        counts; ``keeps``: a container that holds devices keeps them, whatever is known of their plugin and their health
        by now; ``awaited``: resources whose plugins may return, with the time at which that is given up. Raises OSError
        if the devices cannot be recorded, and ValueError for an amount that is none."""
        for need in needs(pod, self.resources):
            if only not in (None, need.holder.container):
                continue
            held = self._held.get(need.holder)
            has_own = keeps and held is not None and bool(held.answer)
            if isinstance(answer := await self._meet(pod, need, has_own), Refused):
                resource = need.holder.resource
                until = (awaited or {}).get(resource)
                return answer if until is None else Awaited(resource, until)
        await self.record()
        return Met()

    async def release(self, uids: AbstractSet[str]) -> None:
        """Take their devices from these pods, which have ended. Raises OSError; in memory they are free all the
        same."""
        if any(holder.pod_uid in uids for holder in self._held):
            self._held = released(self._held, uids)
            self._answered = {holder: by for holder, by in self._answered.items() if holder in self._held}
            await self.record()

    def holders(self) -> frozenset[str]:
        """Return the UIDs of the pods that hold devices."""
        return frozenset(holder.pod_uid for holder in self._held)

    async def _meet(self, pod: Pod, need: Need, keeps_running: bool) -> Met | Refused:
        while True:
            decision = self._decide(pod, need, keeps_running)
            if isinstance(decision, Refused):
                return decision
            if isinstance(decision, Met):
                held = self._held.get(need.holder)
                if held is None or (held.answer and not self._is_outdated(need.holder)):
                    return decision
                answer = await self._allocate(need.holder, held)
                if isinstance(answer, Refused) and keeps_running and held.answer:
                    said = "The device plugin of %s does not allocate a container's devices again, it keeps them: %s"
                    log.warning(said, need.holder.resource, answer.message)
                    return Met()
                return answer
            try:
                advice = await self._advice(need.holder.resource, decision)
            except PluginFailed as error:
                return Refused(f"device plugin GetPreferredAllocation rpc failed with err: {error}")
            # Others were served while the plugin was asked. Each repetition follows from a change.
            if decision == self._decide(pod, need, keeps_running):
                devices = self._plugins.inventory[need.holder.resource].devices
                held = Held({name: devices[name].numa_nodes for name in chosen(decision, advice)})
                self._held = {**self._held, need.holder: held}
                return await self._allocate(need.holder, held, is_new=True)

    def _is_outdated(self, holder: Holder) -> bool:
        """True if the plugin has registered again since it answered: it may give the devices by other paths now."""
        connected = self._plugins.connected.get(holder.resource)
        return connected is not None and self._answered.get(holder) is not connected

    def _decide(self, pod: Pod, need: Need, keeps_running: bool) -> Decision:
        return decide(
            need,
            self._plugins.inventory,
            self._held,
            reusable=reusable(pod, need.holder, self._held),
            keeps_running=keeps_running,
        )

    async def _advice(self, resource: str, choice: Open) -> tuple[str, ...]:
        connected = self._plugins.connected.get(resource)
        if connected is None or choice.question is None or not connected.options.advises:
            return ()
        with within(CALL_SECONDS_MAX):
            return await connected.plugin.preferred(choice.question)

    async def _allocate(self, holder: Holder, held: Held, *, is_new: bool = False) -> Met | Refused:
        """Ask the plugin what the container needs for its devices. Without an answer it does not get ``is_new`` ones,
        and keeps others."""
        found = None if is_new else held
        try:
            connected = self._plugins.connected.get(holder.resource)
            if connected is None:
                return Refused(f"endpoint not found in cache for a registered resource: {holder.resource}")
            began = trio.current_time()
            with within(CALL_SECONDS_MAX):
                found = Held(held.devices, await connected.plugin.allocate(held.devices))
            self._answered[holder] = connected
            self._plugins.figures.allocations[holder.resource].add(trio.current_time() - began)
            return Met()
        except PluginFailed as error:
            return Refused(str(error))
        finally:
            # The pod may have ended meanwhile, and its holdings were released.
            if self._held.get(holder) is held:
                others = {one: its for one, its in self._held.items() if one != holder}
                self._held = others if found is None else {**others, holder: found}

    async def record(self) -> None:
        """Write the file if it is outdated: the holdings and the names of the resources are all that a later run of the
        agent reads. Raises OSError."""
        async with self._writing:
            held, inventory = self._held, self._plugins.inventory
            if held is self._written and inventory.keys() == self._recorded:
                return
            content = checkpoint.written(held, inventory)
            await self._on_disk(partial(_write, self._path, content))
            self._written, self._recorded = held, frozenset(inventory)

    async def _on_disk(self, work: Callable[[], Result]) -> Result:
        return await on_disk(self._threads, work, f"the devices of pods in {self._path}", may_hang=True)

    def __repr__(self) -> str:
        return f"<DeviceHoldings of {len(self._held)} holders>"


def _content(path: Path) -> tuple[bytes, int]:
    """Return the content of the file, and when it was written. In a thread. Raises OSError."""
    return read_plain(path, FILE_BYTES_MAX), path.stat().st_mtime_ns


def _write(path: Path, content: bytes) -> None:
    """Write the file and its copy. In a thread. Raises OSError."""
    write_privately(path, content)
    write_privately(path.with_name(COPY), content)
