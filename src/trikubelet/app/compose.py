"""The agent as a whole: which parts there are for these settings, and which nursery each lives in.

    services   (shielded; ended by us, after the work)   embedded runtime · CRI channel · health · local API
    └─ work    (ended by the caller's cancellation)      run_node · manifest sources

``run`` is the picture of ``docs/architecture.md`` as code. Stopping the agent stops no container of an external
runtime; those of the embedded one are processes of this agent and end with it.
"""

from __future__ import annotations

import logging
import random
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.app.node import Outside, join, run_node
from trikubelet.app.services import open_services
from trikubelet.app.sources import build_sources, source_names
from trikubelet.app.translate import bounds_of, facts_of, rules_of
from trikubelet.app.view import View
from trikubelet.cri.channel import open_channel
from trikubelet.cri.runtime import CriImages, CriRuntime
from trikubelet.host import mounts
from trikubelet.host.cgroups import NoPodCgroups, choose_cgroups, read_hierarchies
from trikubelet.host.clock import SystemClock
from trikubelet.host.node import read_node
from trikubelet.host.pod_files import DiskPodFiles
from trikubelet.kit.threads import ThreadPool
from trikubelet.server.health import serve_health
from trikubelet.server.local_api import serve_local_api
from trikubelet.server.node_view import SOCKET_NAME
from trikubelet.volumes.volumes import DiskVolumes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.app.node import Node
    from trikubelet.app.services import Services
    from trikubelet.app.settings import Settings
    from trikubelet.app.sources import Sources
    from trikubelet.core.containers import NodeFacts
    from trikubelet.model.bounds import Bounds
    from trikubelet.ports import Clock, Images, PodCgroups, Runtime
    from trikubelet.server.health import Check

log = logging.getLogger(__name__)

VOLUME_THREADS_MAX: Final = 16
MANIFEST_THREADS_MAX: Final = 4
EMBEDDED_SOCKET: Final = "embedded.sock"


@dataclass(frozen=True, slots=True)
class Agent:
    """The joined agent, for those who only look. ``checks`` are its health checks by name."""

    node: Node
    sources: Sources
    view: View
    checks: Mapping[str, Check]


async def run(
    settings: Settings,
    log_trouble: Check,
    *,
    task_status: trio.TaskStatus[Agent] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Be the agent until cancelled. Started: pods are taken from every source. ``log_trouble``: what is wrong with the
    log, if anything.

    Raises StartFailed for what an operator must mend, and whatever breaks a part: nothing is restarted in here.
    """
    choice = settings.runtime
    log.info("Container runtime: %s", choice.reason)
    clock = SystemClock()
    bounds = bounds_of(settings.configuration)
    settings.run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with open_services() as services, AsyncExitStack() as channels:
        endpoint = await _start_embedded(services, settings) if choice.embedded else choice.endpoint
        runtime = await channels.enter_async_context(open_channel(endpoint))
        images = runtime
        if settings.image_endpoint not in ("", choice.endpoint):
            images = await channels.enter_async_context(open_channel(settings.image_endpoint))
        agent = _join(
            settings, bounds, clock, CriRuntime(runtime), CriImages(images), log_trouble, embedded=choice.embedded
        )
        await _start_health(services, settings, agent.checks)
        socket = str(settings.run_dir / SOCKET_NAME)
        await services.start("local API", partial(serve_local_api, agent.view, clock, socket))
        async with trio.open_nursery() as work:
            # The sources first: what is wrong with a manifest is to be seen while the runtime is still waited for.
            for source in agent.sources.all:
                await work.start(source.run)
            await work.start(run_node, agent.node)
            task_status.started(agent)


def _join(
    settings: Settings,
    bounds: Bounds,
    clock: Clock,
    runtime: Runtime,
    images: Images,
    log_trouble: Check,
    *,
    embedded: bool,
) -> Agent:
    facts, cgroups = _cgroups(facts_of(settings, read_node()), embedded=embedded)
    outside = Outside(
        runtime=runtime,
        images=images,
        files=DiskPodFiles(settings.root_dir, settings.pod_logs_dir, settings.container_logs_dir),
        volumes=DiskVolumes(settings.root_dir, facts, mounts, ThreadPool("volumes", VOLUME_THREADS_MAX)),
        cgroups=cgroups,
        clock=clock,
    )
    # Jitter only: what is drawn decides when, never what.
    chance = random.Random()  # noqa: S311 - no secret hangs on it
    node = join(outside, facts, rules_of(settings, bounds), source_names(settings), chance)
    manifests = ThreadPool("manifests", MANIFEST_THREADS_MAX)
    sources = build_sources(settings, node.slots, clock, manifests, bounds)
    view = View(node, clock, settings.node_name, str(settings.pod_logs_dir), sources.files)
    checks: dict[str, Check] = {
        "log": log_trouble,
        "syncloop": node.sync_loop.unhealthy,
        "pleg": node.pleg.unhealthy,
        "runtime": node.runtime_state.unhealthy,
    }
    return Agent(node, sources, view, checks)


def _cgroups(facts: NodeFacts, *, embedded: bool) -> tuple[NodeFacts, PodCgroups]:
    """The pods' cgroups, and the facts that go with them. The embedded runtime's processes stay in the agent's."""
    if embedded:
        return replace(facts, cgroups_managed=False), NoPodCgroups()
    chosen = choose_cgroups(facts, read_hierarchies())
    if chosen.why_not:
        log.warning("Pods have no cgroups of their own: %s", chosen.why_not)
    return chosen.facts, chosen.cgroups


async def _start_embedded(services: Services, settings: Settings) -> str:
    """Start the embedded runtime; its endpoint."""
    from trikubelet.embedded.runtime import run_embedded  # noqa: PLC0415 - an agent on containerd does not need it

    socket = settings.run_dir / EMBEDDED_SOCKET
    run_it = partial(run_embedded, str(socket), settings.root_dir / "embedded")
    await services.start("embedded runtime", run_it)
    return f"unix://{socket}"


async def _start_health(services: Services, settings: Settings, checks: Mapping[str, Check]) -> None:
    """The health endpoint, unless its port is 0, as upstream has it."""
    port = settings.configuration.healthz_port
    if port > 0:
        address = settings.configuration.healthz_bind_address
        await services.start("health endpoint", partial(serve_health, checks, address, port))
