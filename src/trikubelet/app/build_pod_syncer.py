"""Builds the parts of one sync of a pod for the pods' workers. A part of ``app/node.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.kit.turnstile import Turnstile
from trikubelet.pods.carry_out import CarryOut
from trikubelet.pods.container_configs import ContainerConfigs
from trikubelet.pods.container_creator import ContainerCreator
from trikubelet.pods.crash_backoffs import CrashBackoffs
from trikubelet.pods.hooks import Hooks
from trikubelet.pods.making_paces import MakingPaces
from trikubelet.pods.noted_lives import NotedLives
from trikubelet.pods.observations import Observations
from trikubelet.pods.pod_syncer import PodSyncer
from trikubelet.pods.preparation import Preparation
from trikubelet.pods.references import References
from trikubelet.pods.resizing import Resizing
from trikubelet.pods.sandbox_configs import SandboxConfigs
from trikubelet.pods.sandboxes import Sandboxes
from trikubelet.pods.start import ContainerStarter
from trikubelet.pods.status_publisher import StatusPublisher
from trikubelet.pods.stop import PodKiller
from trikubelet.pods.termination_messages import TerminationMessages
from trikubelet.pods.traced import TracedPodSyncer, TracedPuller
from trikubelet.pods.waiting_reasons import WaitingReasons

if TYPE_CHECKING:
    from trikubelet.app.shared_parts import SharedParts
    from trikubelet.pods.worker import Syncer


def build_pod_syncer(parts: SharedParts) -> Syncer:
    """Build the parts of a sync. Nothing runs yet."""
    ports, bounds, events, figures = parts.ports, parts.bounds, parts.events, parts.figures
    reasons = WaitingReasons()
    hooks = Hooks(ports.runtime, ports.handlers, parts.host_ips, events, figures)
    killer = PodKiller(ports.runtime, hooks, events, parts.probes, bounds)
    preparation = Preparation(
        health=parts.runtime_state,
        directories=ports.files,
        devices=ports.devices,
        cgroups=ports.cgroups,
        volumes=ports.volumes,
        tear_down=parts.tear_down,
        user_ids=parts.user_ids,
        events=events,
        bounds=bounds,
        figures=figures,
    )
    noted_lives = NotedLives(ports.files)
    syncer = PodSyncer(
        observations=Observations(parts.cache, parts.pleg, ports.files),
        publisher=StatusPublisher(
            statuses=parts.statuses,
            probes=parts.probes,
            allocations=parts.allocations,
            resize_notes=parts.resize_notes,
            reasons=reasons,
            messages=TerminationMessages(ports.files),
            noted_lives=noted_lives,
            devices=ports.devices,
            health=parts.runtime_state,
            host_ips=parts.host_ips,
            events=events,
            clock=ports.clock,
        ),
        preparation=preparation,
        probes=parts.probes,
        restart_requests=parts.restart_requests,
        resizing=Resizing(
            runtime=ports.runtime,
            allocations=parts.allocations,
            notes=parts.resize_notes,
            preparation=preparation,
            relister=parts.pleg,
            facts=parts.facts,
            bounds=bounds,
            figures=figures,
        ),
        carry_out=_build_carry_out(parts, hooks, killer, reasons, noted_lives),
        killer=killer,
    )
    return syncer if parts.spans is None else TracedPodSyncer(syncer, parts.spans)


def _build_carry_out(
    parts: SharedParts, hooks: Hooks, killer: PodKiller, reasons: WaitingReasons, noted_lives: NotedLives
) -> CarryOut:
    """Build the parts that execute plans. Nothing runs yet."""
    ports, facts, rules, bounds = parts.ports, parts.facts, parts.rules, parts.bounds
    events, figures = parts.events, parts.figures
    references, paces = References(parts.objects, ports.volumes), MakingPaces()
    configs = ContainerConfigs(
        files=ports.files,
        volumes=ports.volumes,
        references=references,
        health=parts.runtime_state,
        facts=facts,
        host_ips=parts.host_ips,
        node_hosts=rules.node_hosts,
        bounds=bounds,
    )
    starter = ContainerStarter(
        images=parts.puller if parts.spans is None else TracedPuller(parts.puller, parts.spans),
        creator=ContainerCreator(
            runtime=ports.runtime,
            configs=configs,
            allocations=parts.allocations,
            devices=ports.devices,
            files=ports.files,
            noted_lives=noted_lives,
            paces=paces,
            events=events,
            bounds=bounds,
            figures=figures,
            booted_ns=facts.booted_ns,
        ),
        hooks=hooks,
        killer=killer,
        reasons=reasons,
        backoffs=CrashBackoffs(rules.backoff, ports.clock, facts.booted_ns),
        paces=paces,
        events=events,
        figures=figures,
    )
    sandboxes = Sandboxes(
        runtime=ports.runtime,
        configs=SandboxConfigs(ports.volumes, references, parts.user_ids, events, facts),
        files=ports.files,
        paces=paces,
        events=events,
        bounds=bounds,
        figures=figures,
    )
    turnstile = Turnstile(max(1, facts.capacity.get("cpu", 0) // 1000), bounds.start_turn_seconds_max)
    return CarryOut(
        sandboxes=sandboxes,
        starter=starter,
        killer=killer,
        paces=paces,
        events=events,
        turnstile=turnstile,
        bounds=bounds,
    )
