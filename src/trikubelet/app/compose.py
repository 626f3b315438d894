"""The agent as a whole: the parts for given settings, and the nursery of each part.

    services     (shielded; ended by us, after the work)   an in-process runtime · CRI channel · health · the APIs
    └─ sources   (ended by the caller's cancellation)      manifests
       └─ work   (shielded; ended by us, after the sources, and after the pods of an embedded runtime)   run_node

``run`` is the picture of ``docs/architecture.md`` as code. Stopping the agent stops no container of an external
runtime; those of an in-process runtime end with it, within their grace on the embedded one (``node.agent_stop``).
"""

from __future__ import annotations

import logging
import os
import random
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.app.agent_view import AgentNotes
from trikubelet.app.cgroup_driver import Driver, ask_driver, confirm_driver
from trikubelet.app.endpoint import EMBEDDED, FAKE
from trikubelet.app.in_process_runtime import start_in_process
from trikubelet.app.kernel import confirm_kernel
from trikubelet.app.machine_ports import machine_ports
from trikubelet.app.node import build_node, run_node, run_pressure
from trikubelet.app.part_cgroups import keep_part_cgroups, named_parts
from trikubelet.app.paths import make_run_dir
from trikubelet.app.release import chosen_release, reported_version
from trikubelet.app.report import Reporter
from trikubelet.app.services import open_services
from trikubelet.app.sources import build_sources, source_names
from trikubelet.app.tally import active_pods
from trikubelet.app.translate import address_rules_of, bounds_of, facts_of, identity_of, rules_of
from trikubelet.app.view import View
from trikubelet.app.work import open_work
from trikubelet.core.node_addresses import internal_ips
from trikubelet.core.node_status import self_described
from trikubelet.cri.channel import open_channel
from trikubelet.cri.pod_resources import GrpcPodResources
from trikubelet.cri.runtime import CriImages, CriRuntime
from trikubelet.devices.pod_resources import PodResourcesServer
from trikubelet.host.addresses import HostAddresses, SimulatedAddresses
from trikubelet.host.clock import SystemClock
from trikubelet.host.gauges import HostGauges
from trikubelet.host.node import read_node
from trikubelet.host.part_cgroups import PartCgroups
from trikubelet.host.subordinate_ids import read_subordinate_ids
from trikubelet.kit.threads import ThreadPool
from trikubelet.model.frozen import Frozen
from trikubelet.model.usage import MachineIds
from trikubelet.node.addresses import NodeAddresses
from trikubelet.node.agent_stop import end_pods
from trikubelet.node.server_version import ServerVersion
from trikubelet.server.health import serve_health
from trikubelet.server.local_api import serve_local_api
from trikubelet.server.node_figures import Setup
from trikubelet.server.node_view import SOCKET_NAME
from trikubelet.server.streams import Streams
from trikubelet.stats.disks import Disks
from trikubelet.stats.file_systems import FileSystems
from trikubelet.stats.provider import AGENT_PART, MISC_PART, StatsProvider

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from trikubelet.app.access import Found
    from trikubelet.app.member import MemberTask
    from trikubelet.app.node import Node
    from trikubelet.app.services import Services
    from trikubelet.app.settings import Settings
    from trikubelet.app.sources import Sources
    from trikubelet.core.containers import NodeFacts
    from trikubelet.core.node_status import NodeReport
    from trikubelet.core.user_namespaces import SubordinateIds
    from trikubelet.cri.channel import Channel
    from trikubelet.kit.call_figures import CallFigures
    from trikubelet.kit.spans import Spans
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.node_reading import NodeReading
    from trikubelet.ports import Clock, HostNetwork, Images, Runtime
    from trikubelet.server.health import Check

log = logging.getLogger(__name__)

MANIFEST_THREADS_MAX: Final = 4
SHUTDOWN_THREADS_MAX: Final = 3
"""Reading the record, writing it, writing the machine's settings: none runs twice while it hangs, so each always has a
thread."""


class Agent(Frozen):
    """The running agent, for readers only. ``checks``: its health checks by name; ``version``: returns the version that
    it reports now."""

    node: Node
    sources: Sources
    runtime: Runtime
    view: View
    checks: Mapping[str, Check]
    addresses: NodeAddresses
    notes: AgentNotes
    stats: StatsProvider
    disks: Disks
    version: Callable[[], str]
    member: MemberTask | None = None


def find_access(settings: Settings) -> Found | None:
    """Return the node's access to its cluster; None without a cluster. Logs a warning if it must bootstrap again.
    Changes nothing. Raises StartFailed for unusable kubeconfigs."""
    if settings.standalone:
        return None
    from trikubelet.app import access  # noqa: PLC0415 - a standalone agent needs no HTTP client

    found = access.find_access(settings, SystemClock())
    if found.outlived:
        log.warning("%s; bootstrapping again", found.outlived)
    return found


async def run(
    settings: Settings,
    log_problem: Check,
    found: Found | None,
    reading: NodeReading | None = None,
    *,
    make_runtime: Callable[[Channel], Runtime] = CriRuntime,
    task_status: trio.TaskStatus[Agent] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run the agent until cancelled. Started: pods are accepted from every source. ``log_problem``: the log's error, if
    any; ``found``: the result of ``find_access``; ``reading``: the node's facts, by default this machine's;
    ``make_runtime``: wraps a channel to the runtime.

    Raises StartFailed for problems that an operator must fix, and the error that breaks a part: nothing is restarted in
    here.
    """
    choice = settings.runtime
    log.info("Container runtime: %s", choice.reason)
    clock = SystemClock()
    bounds = bounds_of(settings.configuration)
    confirm_kernel(settings)
    make_run_dir(settings.run_dir, settings.root_dir)
    async with open_services() as services, AsyncExitStack() as channels:
        spans = await _start_tracing(services, settings)
        stopping = trio.Event()
        endpoint = await start_in_process(services, settings, stopping) if choice.inside else choice.endpoint
        limit = settings.runtime_message_bytes_max
        runtime = await channels.enter_async_context(open_channel(endpoint, message_bytes_max=limit, spans=spans))
        images = runtime
        if settings.image_endpoint not in ("", choice.endpoint):
            opened = open_channel(settings.image_endpoint, message_bytes_max=limit, spans=spans)
            images = await channels.enter_async_context(opened)
        seen, configured = make_runtime(runtime), settings.configuration.cgroup_driver
        driver = Driver(configured) if choice.inside else await ask_driver(seen, configured)
        agent = _join(
            settings,
            reading or read_node(root_dir=settings.root_dir),
            None if choice.inside else await read_subordinate_ids(os.environ),
            bounds,
            clock,
            seen,
            CriImages(images),
            [channel.figures for channel in dict.fromkeys((runtime, images))],
            log_problem,
            found,
            spans,
            HostAddresses() if reading is None else SimulatedAddresses(),
            driver=driver.name,
            inside=choice.inside,
        )
        await services.start("addresses of the node", agent.addresses.run)
        await services.start("measuring of disks", agent.disks.run)
        if reading is None:  # a simulated node moves no processes
            await _start_part_cgroups(services, settings)
        if choice.endpoint != FAKE:
            await services.start("pod resources API", _pod_resources(settings, agent.node).run)
        if agent.member is not None:
            await services.start("membership of the cluster", agent.member.run)
        await _start_health(services, settings, agent)
        await _start_api(services, settings, agent, clock, spans)
        socket = str(settings.run_dir / SOCKET_NAME)
        streams = Streams(agent.view, agent.runtime, settings.configuration.streaming_connection_idle_timeout)
        if settings.kubectl_port:  # before the local API, which returns its kubeconfig
            from trikubelet.app.kubectl_api import start_kubectl_api  # noqa: PLC0415 - only this API needs TLS here

            await start_kubectl_api(services, settings, agent, streams, clock)
        await services.start(
            "local API", partial(serve_local_api, agent.view, agent.notes, streams, agent.stats, clock, socket)
        )
        seconds = settings.embedded_stop_seconds
        ends_pods = choice.endpoint == EMBEDDED and seconds > 0
        last = partial(end_pods, agent.node.workers, seconds, stopping) if ends_pods else None
        async with open_work(services.broken, last) as (beside, work):
            if driver.assumed:
                beside.start_soon(confirm_driver, seen, driver.name)
            # The sources first, so that errors in manifests are reported while the agent waits for the runtime.
            for source in agent.sources.all:
                await beside.start(source.run)
            await work.start(run_node, agent.node)
            if choice.endpoint != FAKE:
                work.start_soon(run_pressure, agent.node, agent.stats)
            work.start_soon(agent.node.shared_cgroup.run)
            if agent.node.shutdown.groups and reading is None:  # a simulated node has no machine to shut down
                work.start_soon(_run_shutdown, agent.node, settings.root_dir)
            task_status.started(agent)


def _pod_resources(settings: Settings, node: Node) -> PodResourcesServer:
    directory, threads = settings.root_dir / "pod-resources", ThreadPool("pod resources", 1)
    return PodResourcesServer(directory, GrpcPodResources(), lambda: active_pods(node), node.devices, threads)


async def _run_shutdown(node: Node, root_dir: Path) -> None:
    from trikubelet.host.logind import Logind  # noqa: PLC0415 - only delays of shutdowns need D-Bus
    from trikubelet.host.shutdown_records import DiskShutdownRecords  # noqa: PLC0415

    threads = ThreadPool("files of a shutdown", SHUTDOWN_THREADS_MAX)
    await node.shutdown.run(Logind(threads), DiskShutdownRecords(root_dir, threads))


def _join(
    settings: Settings,
    reading: NodeReading,
    subordinate_ids: SubordinateIds,
    bounds: Bounds,
    clock: Clock,
    runtime: Runtime,
    images: Images,
    calls: Sequence[CallFigures],
    log_problem: Check,
    found: Found | None,
    spans: Spans | None,
    network: HostNetwork,
    *,
    driver: str,
    inside: bool,
) -> Agent:
    # For jitter only: it decides when, never what.
    chance = random.Random()  # noqa: S311 - no secret depends on it
    addresses = NodeAddresses(network, address_rules_of(settings))
    facts = replace(facts_of(settings, reading, subordinate_ids), cgroup_driver=driver, host_ips=addresses.get())
    ports, facts = machine_ports(
        settings, facts, clock, runtime, images, chance, inside=inside, in_cluster=found is not None
    )
    identity = identity_of(settings, reading)
    rules, sources_named = rules_of(settings, bounds), source_names(settings)
    node = build_node(ports, facts, rules, sources_named, chance, spans, self_described(identity), addresses.get)
    addresses.published = lambda: internal_ips(node.node_object.newest)
    manifests = ThreadPool("manifests", MANIFEST_THREADS_MAX)
    sources = build_sources(settings, node.slots, ports.files, clock, manifests, bounds)
    server_version = ServerVersion(chance)
    chosen = chosen_release()

    def version() -> str:
        return reported_version(chosen, server_version.known)

    report = _reporter(settings, node, facts, reading, images, addresses, version).report
    member = _membership(settings, node, reading, report, found, clock, spans, server_version)
    if member is not None:
        addresses.changed.add(member.addresses_changed)
    gates = settings.effective.gates.states()

    def setup() -> Setup:
        return Setup(version(), facts.cgroup_version, gates)

    view = View(node, clock, settings.node_name, str(settings.pod_logs_dir), sources.files, setup, member, calls)
    checks: dict[str, Check] = {
        "log": log_problem,
        "syncloop": node.sync_loop.unhealthy,
        "pleg": node.pleg.unhealthy,
        "runtime": node.runtime_state.unhealthy,
        "device-plugin": node.devices.unhealthy,
    }
    notes = AgentNotes(settings, identity, report, node, view, ports.images, clock)
    gauges = HostGauges(clock)
    believed_seconds = settings.configuration.volume_stats_agg_period
    disks = Disks(
        gauges=gauges,
        volumes=node.volumes,
        pods=settings.root_dir / "pods",
        pod_logs=settings.pod_logs_dir,
        clock=clock,
        believed_seconds=believed_seconds,
    )
    file_systems = FileSystems(gauges, settings.root_dir)
    stats = StatsProvider(
        runtime,
        images,
        gauges,
        disks,
        file_systems,
        node.cache,
        view.pods,
        facts,
        named_parts(settings),
        MachineIds(reading.machine_id, reading.system_uuid, reading.boot_id),
    )
    return Agent(node, sources, runtime, view, checks, addresses, notes, stats, disks, version, member)


def _reporter(
    settings: Settings,
    node: Node,
    facts: NodeFacts,
    reading: NodeReading,
    images: Images,
    addresses: NodeAddresses,
    version: Callable[[], str],
) -> Reporter:
    is_told = bool(settings.node_ips or settings.node_ip_family)
    return Reporter(
        node,
        facts,
        reading,
        images,
        settings.configuration.node_status_max_images,
        addresses,
        settings.api_port,
        external_cloud=settings.external_cloud,
        cloud_tells=settings.external_cloud and not is_told,
        version=version,
    )


def _membership(
    settings: Settings,
    node: Node,
    reading: NodeReading,
    report: Callable[[], Awaitable[NodeReport]],
    found: Found | None,
    clock: Clock,
    spans: Spans | None,
    server_version: ServerVersion,
) -> MemberTask | None:
    """Return the node's membership of a cluster, if it is configured."""
    if found is None:
        return None
    from trikubelet.app.member import MemberTask  # noqa: PLC0415 - a standalone agent needs no HTTP client

    return MemberTask(settings, node, reading, report, found, clock, spans, server_version)


async def _start_tracing(services: Services, settings: Settings) -> Spans | None:
    """Return the traces, if they are configured. Raises StartFailed."""
    if settings.configuration.tracing is None:
        return None
    from trikubelet.app.tracing import open_tracing  # noqa: PLC0415 - an extra, and nothing without it

    traces = open_tracing(settings.configuration.tracing, settings.node_name)
    await services.start("tracing", traces.run)
    return traces


async def _start_part_cgroups(services: Services, settings: Settings) -> None:
    """Keep processes in the cgroups of the node's parts, if any are configured."""
    parts = named_parts(settings)
    if parts.keys() & {AGENT_PART, MISC_PART}:
        threads = ThreadPool("cgroups of the node's parts", 1)
        await services.start("cgroups of the node's parts", partial(keep_part_cgroups, parts, PartCgroups(), threads))


async def _start_api(services: Services, settings: Settings, agent: Agent, clock: Clock, spans: Spans | None) -> None:
    """Serve the node's own API, if configured. Raises StartFailed."""
    if settings.api_port or settings.configuration.read_only_port:
        from trikubelet.app.node_api import start_node_api  # noqa: PLC0415 - only this API needs TLS

        await start_node_api(services, settings, agent, clock, spans)


async def _start_health(services: Services, settings: Settings, agent: Agent) -> None:
    """Serve the health endpoint, unless its port is 0, like upstream."""
    port = settings.configuration.healthz_port
    if port > 0:
        address = settings.configuration.healthz_bind_address
        remarks = {"pleg": agent.node.pleg.remark}
        await services.start("health endpoint", partial(serve_health, agent.checks, remarks, address, port))
