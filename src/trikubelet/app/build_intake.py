"""Builds the intake of pods: evaluation, resizes and admission, through which each desired pod enters. A part of
``app/node.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.model.frozen import Frozen
from trikubelet.pods.admission import Admission
from trikubelet.pods.evaluation import Evaluation
from trikubelet.pods.resize_decisions import ResizeDecisions
from trikubelet.pods.resizes import Resizes
from trikubelet.pods.unsupported_reports import UnsupportedReports

if TYPE_CHECKING:
    from trikubelet.app.build_upkeep import Upkeep
    from trikubelet.app.shared_parts import SharedParts
    from trikubelet.pods.disruptions import Disruptions
    from trikubelet.pods.workers import PodWorkers
    from trikubelet.sources.desired import DesiredPods


class Intake(Frozen):
    """The parts that others need."""

    evaluation: Evaluation
    resizes: Resizes
    admission: Admission


def build_intake(
    parts: SharedParts, upkeep: Upkeep, workers: PodWorkers, desired: DesiredPods, disruptions: Disruptions
) -> Intake:
    """Build the parts of the intake. Nothing runs yet."""
    evaluation = Evaluation(
        workers=workers,
        desired=desired,
        allocations=parts.allocations,
        facts=parts.facts,
        node=parts.node_object,
        pressure=upkeep.eviction,
        health=parts.runtime_state,
        disruptions=disruptions,
        devices=parts.ports.devices,
    )
    resizes = Resizes(
        allocations=parts.allocations,
        notes=parts.resize_notes,
        decisions=ResizeDecisions(
            evaluation=evaluation,
            allocations=parts.allocations,
            notes=parts.resize_notes,
            facts=parts.facts,
            events=parts.events,
            figures=parts.figures,
        ),
        workers=workers,
        desired=desired,
        statuses=parts.statuses,
        bounds=parts.bounds,
        figures=parts.figures,
    )
    admission = Admission(
        workers=workers,
        evaluation=evaluation,
        resizes=resizes,
        shutdown=upkeep.shutdown,
        runtime_pods=parts.pleg,
        health=parts.runtime_state,
        statuses=parts.statuses,
        events=parts.events,
        clock=parts.ports.clock,
        allocations=parts.allocations,
        devices=parts.ports.devices,
        unsupported=UnsupportedReports(parts.events, embedded=parts.facts.embedded, may_mount=parts.facts.may_mount),
        figures=parts.figures,
    )
    return Intake(evaluation, resizes, admission)
