"""The parts of one sync of a pod, joined: what ``app/node.py`` gives the pods' workers to act with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.kit.turnstile import Turnstile
from trikubelet.pods.attempts import PodAttempts
from trikubelet.pods.carry_out import CarryOut
from trikubelet.pods.container_configs import ContainerConfigs
from trikubelet.pods.container_creator import ContainerCreator
from trikubelet.pods.crash_backoffs import CrashBackoffs
from trikubelet.pods.hooks import Hooks
from trikubelet.pods.observations import Observations
from trikubelet.pods.preparation import Preparation
from trikubelet.pods.references import References
from trikubelet.pods.resizing import Resizing
from trikubelet.pods.sandbox_configs import SandboxConfigs
from trikubelet.pods.sandboxes import Sandboxes
from trikubelet.pods.start import ContainerStarter
from trikubelet.pods.status_publisher import StatusPublisher
from trikubelet.pods.stop import PodKiller
from trikubelet.pods.termination_messages import TerminationMessages
from trikubelet.pods.traced import TracedAttempts, TracedPuller
from trikubelet.pods.waiting_reasons import WaitingReasons

if TYPE_CHECKING:
    from trikubelet.app.node import Ports, Rules
    from trikubelet.core.containers import NodeFacts
    from trikubelet.kit.spans import Spans
    from trikubelet.pleg.cache import PodCache
    from trikubelet.pleg.pleg import Pleg
    from trikubelet.pods.allocations import Allocations
    from trikubelet.pods.figures import PodFigures
    from trikubelet.pods.resize_notes import ResizeNotes
    from trikubelet.pods.restart_requests import RestartRequests
    from trikubelet.pods.tear_down import TearDown
    from trikubelet.pods.user_ids import UserIds
    from trikubelet.pods.worker import Attempts
    from trikubelet.ports import Events, HostIps, ImagePuller, PodObjects, RuntimeHealth
    from trikubelet.probes.node import NodeProbes
    from trikubelet.status.memory import PodStatuses


def build_attempts(
    ports: Ports,
    facts: NodeFacts,
    rules: Rules,
    host_ips: HostIps,
    *,
    pleg: Pleg,
    cache: PodCache,
    statuses: PodStatuses,
    health: RuntimeHealth,
    objects: PodObjects,
    user_ids: UserIds,
    allocations: Allocations,
    resize_notes: ResizeNotes,
    probes: NodeProbes,
    images: ImagePuller,
    restart_requests: RestartRequests,
    tear_down: TearDown,
    events: Events,
    figures: PodFigures,
    spans: Spans | None,
) -> Attempts:
    """Join what an attempt consists of. Nothing runs yet. ``spans``: where traces go, if anywhere."""
    bounds = rules.bounds
    reasons = WaitingReasons()
    hooks = Hooks(ports.runtime, ports.handlers, host_ips, events, figures)
    killer = PodKiller(ports.runtime, hooks, events, probes, bounds)
    preparation = Preparation(
        health=health,
        directories=ports.files,
        cgroups=ports.cgroups,
        volumes=ports.volumes,
        tear_down=tear_down,
        user_ids=user_ids,
        events=events,
        bounds=bounds,
        figures=figures,
    )
    attempts = PodAttempts(
        observations=Observations(cache, pleg, ports.files),
        publisher=StatusPublisher(
            statuses=statuses,
            probes=probes,
            allocations=allocations,
            resize_notes=resize_notes,
            reasons=reasons,
            messages=TerminationMessages(ports.files),
            health=health,
            host_ips=host_ips,
            events=events,
            clock=ports.clock,
        ),
        preparation=preparation,
        probes=probes,
        restart_requests=restart_requests,
        resizing=Resizing(
            runtime=ports.runtime,
            allocations=allocations,
            notes=resize_notes,
            preparation=preparation,
            relister=pleg,
            facts=facts,
            bounds=bounds,
            figures=figures,
        ),
        carry_out=_build_carry_out(
            ports,
            facts,
            rules,
            host_ips,
            health=health,
            objects=objects,
            user_ids=user_ids,
            allocations=allocations,
            images=images if spans is None else TracedPuller(images, spans),
            hooks=hooks,
            killer=killer,
            reasons=reasons,
            events=events,
            figures=figures,
        ),
        killer=killer,
    )
    return attempts if spans is None else TracedAttempts(attempts, spans)


def _build_carry_out(
    ports: Ports,
    facts: NodeFacts,
    rules: Rules,
    host_ips: HostIps,
    *,
    health: RuntimeHealth,
    objects: PodObjects,
    user_ids: UserIds,
    allocations: Allocations,
    images: ImagePuller,
    hooks: Hooks,
    killer: PodKiller,
    reasons: WaitingReasons,
    events: Events,
    figures: PodFigures,
) -> CarryOut:
    """Join the parts that execute plans. Nothing runs yet."""
    bounds = rules.bounds
    references = References(objects, ports.volumes)
    sandboxes = Sandboxes(
        runtime=ports.runtime,
        configs=SandboxConfigs(ports.volumes, references, user_ids, events, facts),
        files=ports.files,
        events=events,
        bounds=bounds,
        figures=figures,
    )
    configs = ContainerConfigs(
        files=ports.files,
        volumes=ports.volumes,
        references=references,
        health=health,
        facts=facts,
        host_ips=host_ips,
        node_hosts=rules.node_hosts,
        bounds=bounds,
    )
    creator = ContainerCreator(
        runtime=ports.runtime,
        configs=configs,
        allocations=allocations,
        files=ports.files,
        events=events,
        bounds=bounds,
        figures=figures,
    )
    starter = ContainerStarter(
        images=images,
        creator=creator,
        hooks=hooks,
        killer=killer,
        reasons=reasons,
        backoffs=CrashBackoffs(rules.backoff, ports.clock),
        events=events,
        figures=figures,
    )
    turnstile = Turnstile(max(1, facts.capacity.get("cpu", 0) // 1000), bounds.start_turn_seconds_max)
    return CarryOut(
        sandboxes=sandboxes, starter=starter, killer=killer, events=events, turnstile=turnstile, bounds=bounds
    )
