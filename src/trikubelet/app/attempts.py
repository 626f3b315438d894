"""The parts that bring a pod one attempt further, joined: what ``app/node.py`` gives the pods' workers to act with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.app.carry_out import build_carry_out
from trikubelet.pods.attempts import PodAttempts
from trikubelet.pods.facts import FactFinder
from trikubelet.pods.hooks import Hooks
from trikubelet.pods.observations import Observations
from trikubelet.pods.preparation import Preparation
from trikubelet.pods.publisher import StatusPublisher
from trikubelet.pods.resizing import Resizing
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
    from trikubelet.pods.user_ids import UserIds
    from trikubelet.pods.wishes import RestartWishes
    from trikubelet.pods.worker import Attempts
    from trikubelet.ports import Events, ImagePuller, PodObjects, RuntimeHealth
    from trikubelet.probes.node import NodeProbes
    from trikubelet.status.memory import PodStatuses


def build_attempts(
    ports: Ports,
    facts: NodeFacts,
    rules: Rules,
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
    wishes: RestartWishes,
    events: Events,
    figures: PodFigures,
    spans: Spans | None,
) -> Attempts:
    """Join what an attempt consists of. Nothing runs yet. ``spans``: who is told what is done when, if anybody is."""
    bounds = rules.bounds
    reasons = WaitingReasons()
    hooks = Hooks(ports.runtime, ports.handlers, facts.host_ips, events, figures)
    killer = PodKiller(ports.runtime, hooks, events, probes, bounds)
    preparation = Preparation(
        health=health,
        directories=ports.files,
        cgroups=ports.cgroups,
        volumes=ports.volumes,
        user_ids=user_ids,
        events=events,
        bounds=bounds,
        figures=figures,
    )
    attempts = PodAttempts(
        observations=Observations(cache, pleg),
        publisher=StatusPublisher(
            statuses=statuses,
            probes=probes,
            allocations=allocations,
            resize_notes=resize_notes,
            facts=FactFinder(ports.clock, health, reasons, TerminationMessages(ports.files), facts.host_ips),
            events=events,
            clock=ports.clock,
        ),
        preparation=preparation,
        probes=probes,
        wishes=wishes,
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
        carry_out=build_carry_out(
            ports,
            facts,
            rules,
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
