"""What a source says at one moment, as it goes from the source through its slot to the mux."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trikubelet.model.k8s import Pod


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a source wants now. ``doubtful`` names its manifests that had faults when the agent began and have
    had them since: what pods they once brought nobody can know, so while there is one, what runs and nobody wants is
    left alone. It travels with the pods, because a manifest is mended and its pod wanted again at the same moment."""

    pods: tuple[Pod, ...] = ()
    doubtful: tuple[str, ...] = ()
