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
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from trikubelet.core.devices import checkpoint
from trikubelet.core.devices.choice import Open, chosen
from trikubelet.core.devices.decision import Met, Refused, decide, released
from trikubelet.core.devices.needs import needs, reusable
from trikubelet.core.devices.trial import known_resources
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

    from trikubelet.core.devices.decision import Decision
    from trikubelet.core.devices.needs import Need
    from trikubelet.devices.plugins import DevicePlugins
    from trikubelet.kit.threads import ThreadPool
    from trikubelet.model.devices import Holder, Holdings
    from trikubelet.model.k8s import Pod

log = logging.getLogger(__name__)

Result = TypeVar("Result")

FILE: Final = "kubelet_internal_checkpoint"
FILE_BYTES_MAX: Final = 64 * 2**20
CALL_SECONDS_MAX: Final = 120.0
"""For a plugin's advice and for its allocation. Upstream waits without end, and its admission of all pods with it."""


class DeviceHoldings:
    """Owns which container holds which devices, and the file in which that is recorded."""

    def __init__(self, directory: Path, plugins: DevicePlugins, threads: ThreadPool) -> None:
        self.had_file = False
        """True if an earlier run had recorded devices."""
        self._path = directory / FILE
        self._plugins = plugins
        self._threads = threads
        self._held: Holdings = {}
        self._written = self._held
        self._recorded: frozenset[str] = frozenset()
        self._writing = trio.Lock()

    async def load(self) -> None:
        """Read the file of an earlier run. A damaged file is reported and kept beside the new one. Raises OSError."""
        try:
            content = await self._on_disk(partial(read_plain, self._path, FILE_BYTES_MAX))
        except FileNotFoundError:
            return
        self.had_file = True
        try:
            found = checkpoint.read(content)
        except ValueError as error:
            aside = self._path.with_name(f"{FILE}.damaged")
            log.warning("Cannot read %s, the devices of running pods are unknown: %s (kept as %s)", FILE, error, aside)
            await self._on_disk(partial(self._path.replace, aside))
            return
        self._held = self._written = found.holdings
        self._recorded = found.resources
        self._plugins.restore(found.resources)

    def of(self, pod: Pod, container: str) -> dict[str, Held]:
        """Return what the container holds, by resource."""
        return {
            holder.resource: held
            for holder, held in sorted(self._held.items(), key=lambda item: item[0])
            if holder.pod_uid == pod.metadata.uid and holder.container == container
        }

    @property
    def held(self) -> Mapping[Holder, Held]:
        """All holdings at this moment."""
        return self._held

    async def ensure(self, pod: Pod, *, only: str | None = None, keeps: bool = False) -> Met | Refused:
        """Give the pod's containers the devices that they need and do not hold yet. ``only``: the name of the one that
        counts; ``keeps``: a container that holds devices keeps them, whatever is known of their plugin and their health
        by now. Raises OSError if the devices cannot be recorded, and ValueError for an amount that is none."""
        for need in needs(pod, known_resources(self._plugins.inventory, self._held)):
            if only not in (None, need.holder.container):
                continue
            held = self._held.get(need.holder)
            has_own = keeps and held is not None and bool(held.answer)
            if isinstance(answer := await self._meet(pod, need, has_own), Refused):
                return answer
        await self.record()
        return Met()

    async def release(self, uids: AbstractSet[str]) -> None:
        """Take their devices from these pods, which have ended. Raises OSError; in memory they are free all the
        same."""
        if any(holder.pod_uid in uids for holder in self._held):
            self._held = released(self._held, uids)
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
                if held is None or held.answer or keeps_running:
                    return decision
                return await self._allocate(need.holder, held)
            try:
                advice = await self._advice(need.holder.resource, decision)
            except PluginFailed as error:
                return Refused(f"device plugin GetPreferredAllocation rpc failed with err: {error}")
            # Others were served while the plugin was asked. Each repetition follows from a change.
            if decision == self._decide(pod, need, keeps_running):
                devices = self._plugins.inventory[need.holder.resource].devices
                held = Held({name: devices[name].numa_nodes for name in chosen(decision, advice)})
                self._held = {**self._held, need.holder: held}
                return await self._allocate(need.holder, held)

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

    async def _allocate(self, holder: Holder, held: Held) -> Met | Refused:
        """Ask the plugin what the container needs for its devices. Without an answer it does not hold them."""
        answer = b""
        is_answered = False
        try:
            connected = self._plugins.connected.get(holder.resource)
            if connected is None:
                return Refused(f"endpoint not found in cache for a registered resource: {holder.resource}")
            with within(CALL_SECONDS_MAX):
                answer = await connected.plugin.allocate(held.devices)
            is_answered = True
            return Met()
        except PluginFailed as error:
            return Refused(str(error))
        finally:
            # The pod may have ended meanwhile, and what it held was released.
            if self._held.get(holder) is held:
                others = {one: its for one, its in self._held.items() if one != holder}
                self._held = {**others, holder: Held(held.devices, answer)} if is_answered else others

    async def record(self) -> None:
        """Write the file if it is outdated: the holdings and the names of the resources are all that a later run of the
        agent reads. Raises OSError."""
        async with self._writing:
            held, inventory = self._held, self._plugins.inventory
            if held is self._written and inventory.keys() == self._recorded:
                return
            content = checkpoint.written(held, inventory)
            await self._on_disk(partial(write_privately, self._path, content))
            self._written, self._recorded = held, frozenset(inventory)

    async def _on_disk(self, work: Callable[[], Result]) -> Result:
        return await on_disk(self._threads, work, f"the devices of pods in {self._path}", may_hang=True)

    def __repr__(self) -> str:
        return f"<DeviceHoldings of {len(self._held)} holders>"
