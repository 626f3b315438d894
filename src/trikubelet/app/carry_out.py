"""The parts that make sandboxes and containers, joined: what ``app/node.py`` gives a pod's attempts to act with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.kit.turnstile import Turnstile
from trikubelet.pods.carry_out import CarryOut
from trikubelet.pods.container_configs import ContainerConfigs
from trikubelet.pods.crash_backoffs import CrashBackoffs
from trikubelet.pods.making import ContainerMaker
from trikubelet.pods.references import References
from trikubelet.pods.sandbox_configs import SandboxConfigs
from trikubelet.pods.sandboxes import Sandboxes
from trikubelet.pods.start import ContainerStarter

if TYPE_CHECKING:
    from trikubelet.app.node import Ports, Rules
    from trikubelet.core.containers import NodeFacts
    from trikubelet.pods.allocations import Allocations
    from trikubelet.pods.figures import PodFigures
    from trikubelet.pods.hooks import Hooks
    from trikubelet.pods.stop import PodKiller
    from trikubelet.pods.user_ids import UserIds
    from trikubelet.pods.waiting_reasons import WaitingReasons
    from trikubelet.ports import Events, ImagePuller, PodObjects, RuntimeHealth


def build_carry_out(
    ports: Ports,
    facts: NodeFacts,
    rules: Rules,
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
    """Join what carries plans out. Nothing runs yet."""
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
        node_hosts=rules.node_hosts,
        bounds=bounds,
    )
    maker = ContainerMaker(
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
        maker=maker,
        hooks=hooks,
        killer=killer,
        reasons=reasons,
        backoffs=CrashBackoffs(rules.backoff, ports.clock),
        events=events,
        figures=figures,
    )
    turnstile = Turnstile(max(1, facts.capacity.get("cpu", 0) // 1000), bounds.start_turn_seconds_max)
    return CarryOut(sandboxes=sandboxes, starter=starter, killer=killer, events=events, turnstile=turnstile)
