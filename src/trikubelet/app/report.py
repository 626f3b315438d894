"""Gathers the data of the node's status when it is due.

The machine was read once at start; the runtime, its images and the node's problems are read each time, or taken from
parts that poll them anyway, like its addresses.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.app.release import VERSION
from trikubelet.core import node_shutdown
from trikubelet.core.node_status import NodeReport, Pressures
from trikubelet.model.runtime_errors import RuntimeCallError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from trikubelet.app.node import Node
    from trikubelet.core.containers import NodeFacts
    from trikubelet.model.node_reading import NodeReading
    from trikubelet.model.runtime import ImageInfo
    from trikubelet.node.addresses import NodeAddresses
    from trikubelet.ports import Images

log = logging.getLogger(__name__)

START_SECONDS_MAX: Final = 5.0
"""How long a status waits for a node that is coming up; then an unavailable or hanging runtime is reported."""
IMAGES_AGE_SECONDS_MAX: Final = 30.0
"""Images are listed again after this; a list of hundreds is too much for every ten seconds."""


class Reporter:
    """Owns the last list of images."""

    def __init__(
        self,
        node: Node,
        facts: NodeFacts,
        reading: NodeReading,
        images: Images,
        images_max: int,
        addresses: NodeAddresses | None = None,
        port: int = 0,
        *,
        external_cloud: bool = False,
        cloud_tells: bool = False,
        version: Callable[[], str] = lambda: VERSION,
    ) -> None:
        """``images_max``: images reported, -1 for all; ``addresses``: None if they are always those of the facts;
        ``port``: of the node's API, 0 if none is served; ``cloud_tells``: the node never reports an address, because
        the controller of its cloud does; ``version``: returns the version to report now."""
        self._node = node
        self._facts = facts
        self._reading = reading
        self._runtime_images = images
        self._images_max = images_max
        self._addresses = addresses
        self._external_cloud = external_cloud
        self._cloud_tells = cloud_tells
        self._port = port
        self._version = version
        self._images: Sequence[ImageInfo] = ()
        self._listed_at = float("-inf")

    async def report(self) -> NodeReport:
        """Return the node at this moment. Waits a while for the node to come up: before that its readiness is unknown,
        and an agent that restarts must not report that it is not ready."""
        with trio.move_on_after(START_SECONDS_MAX):
            await self._node.up.wait()
            if self._addresses is not None:
                await self._addresses.looked.wait()
        await self._list_images()
        ips = self._facts.host_ips if self._addresses is None else self._addresses.get()
        return NodeReport(
            hostname=self._facts.node_name,
            addresses=() if self._cloud_tells else ips,
            external_cloud=self._external_cloud,
            awaits_address=not (ips or self._cloud_tells),
            reading=self._reading,
            capacity=self._facts.capacity,
            allocatable=self._facts.allocatable,
            version=self._version(),
            runtime=self._node.runtime_state.info,
            images=self._images,
            images_max=self._images_max,
            volumes_in_use=tuple(self._node.volumes.in_use()),
            port=self._port,
            pressures=Pressures.of(self._node.eviction.conditions()),
            problems=tuple(self._problems()),
            devices=self._node.devices.amounts(),
            keeps_extended=self._node.devices.had_record,
        )

    def _problems(self) -> Iterator[str]:
        """Yield why the node is not ready, in upstream's order and wording."""
        if problem := self._node.runtime_state.unhealthy():
            yield problem
        elif problem := self._node.runtime_state.network_problem():
            yield f"container runtime network not ready: {problem}"
        if problem := self._node.pleg.unhealthy():
            yield f"PLEG is not healthy: {problem}"
        if self._node.shutdown.is_shutting_down:
            yield node_shutdown.NOT_READY

    async def _list_images(self) -> None:
        now = trio.current_time()
        if now - self._listed_at < IMAGES_AGE_SECONDS_MAX:
            return
        self._listed_at = now
        try:
            with trio.fail_after(self._node.bounds.runtime_check_seconds):
                self._images = await self._runtime_images.list_images()
        except (RuntimeCallError, trio.TooSlowError) as error:
            log.debug("Cannot list images for the node's status; keeping the last list: %s", error)
